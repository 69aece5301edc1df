/* main.c - loads a step of te-compile without knowing its arguments.
 *
 *     te-compile step.mlir --entry=step -o step.so
 *     load_step ./step.so [reference|cuda|auto]
 *
 * Prints the table of arguments that is in the file, runs one step, with every
 * argument at its initial value, zero where it has none, and prints how much of
 * each result is not zero. The arena is this program's, so results may be in it.
 */

#include "TEDialect/Runtime/te_runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(te_rt_status status) {
  if (status == TE_RT_OK)
    return;
  fprintf(stderr, "load_step: %s\n", te_rt_last_error());
  exit(1);
}

static void *need(void *pointer) {
  if (pointer)
    return pointer;
  const char *why = dlerror();
  fprintf(stderr, "load_step: %s\n", why ? why : "out of memory");
  exit(1);
}

static void print(int index, const te_rt_argument_info *info) {
  printf("%2d %-8s %-12s type %d [", index,
         info->role == TE_RT_RESULT ? "result" : "argument", info->name,
         (int)info->dtype);
  for (int i = 0; i < info->rank; ++i)
    printf(i ? ", %lld" : "%lld", (long long)info->shape[i]);
  printf("], %lld bytes of %s", (long long)info->bytes, info->value_type);
  if (info->flags & TE_RT_IS_WEIGHT)
    printf(", parameter");
  if (info->carried_input >= 0)
    printf(", next state of %d", (int)info->carried_input);
  if (info->arena_offset >= 0)
    printf(", in the arena at %lld", (long long)info->arena_offset);
  printf("\n");
}

/* The value of an argument before the first step. */
static void fill(const te_rt_argument_info *info, char *bytes) {
  memset(bytes, 0, info->bytes);
  if ((info->flags & TE_RT_HAS_INIT) && info->dtype == TE_RT_F32)
    for (int64_t i = 0; i < info->bytes; i += (int64_t)sizeof(float))
      memcpy(bytes + i, &info->init, sizeof(float));
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: load_step FILE.so [reference|cuda|auto]\n");
    return 2;
  }
  void *file = need(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
  const te_rt_module *module = need(dlsym(file, "te_module"));
  const te_rt_signature *signature = need(dlsym(file, "te_module_signature"));
  if (signature->magic != TE_RT_SIGNATURE_MAGIC ||
      signature->version != (uint32_t)te_rt_version()) {
    fprintf(stderr, "load_step: '%s' was compiled for another release\n",
            argv[1]);
    return 1;
  }
  printf("step '%s' under %s\n", signature->entry, signature->recipe);
  const int count = signature->num_arguments;
  const te_rt_argument_info *info = signature->arguments;
  for (int i = 0; i < count; ++i)
    print(i, &info[i]);

  te_rt_context *context = NULL;
  te_rt_instance *instance = NULL;
  check(te_rt_context_create(argc == 3 ? argv[2] : "reference", &context));
  check(te_rt_instance_create_without_arena(context, module, &instance));
  void *arena = NULL;
  check(te_rt_alloc(context, module->arena_bytes, &arena));
  check(te_rt_instance_set_arena(instance, arena, module->arena_bytes));
  void **pointers = need(calloc(count + 1, sizeof(void *)));
  for (int i = 0; i < count; ++i) {
    if (info[i].carried_input >= 0) {
      pointers[i] = pointers[info[i].carried_input];
      continue;
    }
    if (info[i].arena_offset >= 0) {
      pointers[i] = (char *)arena + info[i].arena_offset;
      continue;
    }
    char *bytes = need(malloc(info[i].bytes + 1));
    fill(&info[i], bytes);
    check(te_rt_alloc(context, info[i].bytes, &pointers[i]));
    check(te_rt_copy_to_device(context, pointers[i], bytes, info[i].bytes));
    free(bytes);
  }
  check(te_rt_instance_run(instance, pointers, NULL));
  for (int i = 0; i < count; ++i) {
    if (info[i].role != TE_RT_RESULT)
      continue;
    char *bytes = need(malloc(info[i].bytes + 1));
    check(te_rt_copy_to_host(context, bytes, pointers[i], info[i].bytes));
    long long set = 0;
    for (int64_t b = 0; b < info[i].bytes; ++b)
      set += bytes[b] != 0;
    printf("%s: %lld of %lld bytes are not zero\n", info[i].name, set,
           (long long)info[i].bytes);
    free(bytes);
  }
  te_rt_instance_destroy(instance);
  for (int i = 0; i < count; ++i)
    if (info[i].carried_input < 0 && info[i].arena_offset < 0)
      check(te_rt_free(context, pointers[i]));
  check(te_rt_free(context, arena));
  free(pointers);
  te_rt_context_destroy(context);
  dlclose(file);
  return 0;
}
