"""What `mkdocs build` does to the pages before it renders them.

The pages are also read in the repository, so their links lead to files of it:
`../../examples/c_host/main.c`. The site is complete by itself, so a link that
leaves docs/ leads there to a page that shows the file (source/...), or the names
of a folder's files. CHANGELOG.md is a page, too.

Python-Markdown needs a blank line before a list; the descriptions that come from
TableGen have none.
"""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")
ITEM = re.compile(r"([*-]|\d+\.) ")
LANGUAGES = {".py": "python", ".cpp": "cpp", ".h": "cpp", ".c": "c", ".sh": "bash", ".txt": "cmake"}


def path_outside(page, target):
    """The path of what a link of docs/`page` leads to, or None where the site has it already."""
    if re.match(r"[a-z]+:", target):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    kept = path.startswith("docs/") and path.endswith((".md", ".png", ".svg", ".json"))
    return path if not kept and (ROOT / path).exists() else None


def page_of(path):
    return "changelog.md" if path == "CHANGELOG.md" else f"source/{path}.md"


def shown(path):
    """The page of a file, or of a folder."""
    where = ROOT / path
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {path}\n\n"
    if where.is_dir():
        names = sorted(each.name + "/" * each.is_dir() for each in where.iterdir() if each.name[0] not in "._")
        return head + "".join(f"* `{name}`\n" for name in names)
    return f"{head}````{LANGUAGES.get(where.suffix, 'text')}\n{where.read_text(encoding='utf-8')}````\n"


def on_files(files, config):
    wanted = {
        path_outside(page.src_uri, match[2])
        for page in files.documentation_pages()
        for match in LINK.finditer(page.content_string)
    }
    for path in sorted(wanted - {None, "CHANGELOG.md"}):
        files.append(File.generated(config, page_of(path), content=shown(path)))
    # Its links begin at the root of the repository.
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changes))
    return files


def spaced(lines):
    """The lines, with a blank one before each list that follows a paragraph."""
    fenced, before = False, ""
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and ITEM.match(line) and before.strip() and before[0] != " " and not ITEM.match(before):
            yield ""
        yield line
        before = line


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri
    if source.startswith("source/"):
        return markdown

    def inside(match):
        path = path_outside(source, match[2])
        target = posixpath.relpath(page_of(path), posixpath.dirname(source) or ".") if path else match[2]
        return f"{match[1]}{target}{match[3] or ''})"

    return "\n".join(spaced(LINK.sub(inside, markdown).split("\n")))
