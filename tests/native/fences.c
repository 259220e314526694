// Lays each block of tensors' memory against a page that nobody may touch (LD_PRELOAD): what reads or writes past its end, or
// in memory that was freed, ends by a signal. FENCES=start lays it behind such a page instead: what comes before its beginning
// is caught. libtorch asks for all memory of tensors on CPUs by posix_memalign.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define ROOM ((size_t)1 << 40)
// Vector instructions that want whole alignment get it up to here; the rest of the end is not caught.
#define ALIGNMENT ((size_t)16)

static char *room;
static uint32_t *pages; // how many pages a block has, by the page that it begins in
static atomic_size_t used;
static int at_start;
static void (*plain_free)(void *);
static int (*plain_memalign)(void **, size_t, size_t);

__attribute__((constructor)) static void begin(void) {
  plain_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
  plain_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  const char *way = getenv("FENCES");
  at_start = way && strcmp(way, "start") == 0;
  void *at = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void *table = mmap(NULL, ROOM / PAGE * sizeof *pages, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); // shared: it does not count as data
  if (at == MAP_FAILED || table == MAP_FAILED) return;
  pages = table;
  room = at;
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!room || alignment != 64) return plain_memalign ? plain_memalign(out, alignment, size) : ENOMEM;
  size_t count = (size + PAGE - 1) / PAGE + (size == 0);
  if (count > UINT32_MAX || count * PAGE >= ROOM) return ENOMEM;
  size_t first = atomic_fetch_add(&used, (count + 1) * PAGE);
  if (first + (count + 1) * PAGE > ROOM) return ENOMEM;
  char *block = room + first + PAGE; // the page before it is the last block's fence
  if (mprotect(block, count * PAGE, PROT_READ | PROT_WRITE) != 0) return ENOMEM;
  size_t behind = count * PAGE - (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  char *at = at_start || size == 0 ? block : block + behind;
  pages[(size_t)(at - room) / PAGE] = (uint32_t)count;
  *out = at;
  return 0;
}

void free(void *at) {
  if (!room || (char *)at < room || (char *)at >= room + ROOM) {
    if (plain_free) plain_free(at);
    return;
  }
  size_t page = (size_t)((char *)at - room) / PAGE;
  // The addresses are not used again.
  mmap(room + page * PAGE, pages[page] * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
