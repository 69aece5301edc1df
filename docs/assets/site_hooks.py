"""What `mkdocs build` does to the pages before it renders them.

The pages are written to be read in the repository, too, so their links lead to
files of it: `../../examples/c_host/main.c`. A link that leaves docs/ leads to a
page of the site with that file (source/examples/c_host/main.c), so that the site
is complete by itself. A link to a folder leads to the list of its files.

Lists need a blank line before them in Python-Markdown; the descriptions of
TableGen have none.
"""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)(#[^)\s]*)?\)")
ITEM = re.compile(r"([*-]|\d+\.) ")
LANGUAGES = {".py": "python", ".cpp": "cpp", ".h": "cpp", ".inc": "cpp", ".c": "c", ".cu": "cpp", ".sh": "bash", ".td": "text"}


def outside(page, target):
    """The path in the repository that a link of docs/`page` leads to, or None where it stays in docs/."""
    if re.match(r"[a-z]+:", target):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    if path == "README.md" or path == "CHANGELOG.md":
        return path
    if path.startswith("docs/") and not target.endswith((".mlir", ".py")) and (ROOT / path).suffix:
        return None
    return path if (ROOT / path).exists() and path != "docs" else None


def name_of(path):
    return "source/" + path + (".md" if not path.endswith(".md") else "")


def shown(path):
    """A page that shows a file, or the names of a folder's files."""
    where = ROOT / path
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {path}\n\n"
    if where.is_dir():
        return head + "".join(f"* `{each.name}{'/' if each.is_dir() else ''}`\n" for each in sorted(where.iterdir())
                              if not each.name.startswith((".", "__")))
    text = where.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return re.sub(r"^# .*\n", "", text, count=1) if False else text
    return f"{head}````{LANGUAGES.get(where.suffix, 'text')}\n{text}````\n"


def on_files(files, config):
    wanted = set()
    for file in files.documentation_pages():
        for match in LINK.finditer(file.content_string):
            if path := outside(file.src_uri, match[2]):
                wanted.add(path)
    for path in sorted(wanted):
        files.append(File.generated(config, name_of(path), content=shown(path)))
    return files


def spaced(lines):
    """The lines, with a blank one before each list that follows a paragraph."""
    fenced, before = False, ""
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and ITEM.match(line) and before.strip() and not ITEM.match(before) and before[0] != " ":
            yield ""
        yield line
        before = line


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri

    def rewritten(match):
        path = outside(source, match[2])
        if not path:
            return match[0]
        return f"{match[1]}{posixpath.relpath(name_of(path), posixpath.dirname(source))}{match[3] or ''})"

    if source.startswith("source/"):
        return markdown
    return "\n".join(spaced(LINK.sub(rewritten, markdown).split("\n")))
