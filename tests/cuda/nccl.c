// libnccl.so.2 between processes of one machine, by shared memory: the collectives that the program uses, with NCCL's own
// way of going on in the background (ncclInProgress). Each rank of a communicator is a process.
#include "standin.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNHANDLED_CUDA = 1, SYSTEM = 2, INVALID_ARGUMENT = 4, IN_PROGRESS = 7 };
enum { CHUNK = 1 << 20, MOST_RANKS = 16, ID_BYTES = 128, TYPES = 10 };
enum { SUM = 0, MAX = 2, MIN = 3, FLOAT = 7 };
#define MAGIC 0xcafebeef
static const char TAIL[] = "the end"; // it comes through only if all bytes of the id are passed
static const int WIDTHS[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

typedef struct { char text[ID_BYTES]; } Id;
typedef struct { size_t size; unsigned magic, version; int blocking; } Config;
typedef struct {
  atomic_int joined, arrived, turn, aborted, left;
  char rows[MOST_RANKS][CHUNK];
} Shared;
typedef struct { int world, rank, polls, broken, graphs; atomic_int callers; Shared *shared; char name[ID_BYTES]; } Comm;

int ncclGetVersion(int *version) { *version = 23107; return SUCCESS; }
const char *ncclGetErrorString(int code) {
  return code == SUCCESS ? "no error" : code == IN_PROGRESS ? "in progress" : code == UNHANDLED_CUDA ? "unhandled cuda error" : "an error of the stand-in";
}
const char *ncclGetLastError(void *comm) { (void)comm; return ""; }

int ncclGetUniqueId(Id *id) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  memset(id, 0, sizeof *id);
  snprintf(id->text, ID_BYTES, "/cuda-stand-in-%d-%ld", getpid(), t.tv_nsec + t.tv_sec * 1000000000l);
  memcpy(id->text + ID_BYTES - sizeof TAIL, TAIL, sizeof TAIL);
  return SUCCESS;
}

static void join(Comm *c) {
  int fd = shm_open(c->name, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Shared))) {
    c->broken = SYSTEM;
    return;
  }
  c->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  atomic_fetch_add(&c->shared->joined, 1);
}

int ncclCommInitRankConfig(Comm **out, int world, Id id, int rank, Config *config) {
  *out = NULL;
  if (standin_call("ncclCommInitRankConfig")) return UNHANDLED_CUDA;
  if (strncmp(id.text, "/cuda-stand-in-", 15) || strcmp(id.text + ID_BYTES - sizeof TAIL, TAIL)) {
    standin_violation("ncclCommInitRankConfig: the id did not come through by value");
    return INVALID_ARGUMENT;
  }
  if (config && (config->magic != MAGIC || config->size < 20)) {
    standin_violation("ncclCommInitRankConfig: its config is no ncclConfig_t");
    return INVALID_ARGUMENT;
  }
  Comm *c = calloc(1, sizeof *c);
  c->world = world;
  c->rank = rank;
  strcpy(c->name, id.text);
  join(c);
  *out = c;
  if (config && config->blocking == 0) return IN_PROGRESS;
  while (!c->broken && atomic_load(&c->shared->joined) < world) usleep(200);
  return c->broken;
}
int ncclCommInitRank(Comm **out, int world, Id id, int rank) { return ncclCommInitRankConfig(out, world, id, rank, NULL); }

/** Whoever asks ends the job of the last call: NVIDIA's reads freed memory where two do so at once. */
int ncclCommGetAsyncError(Comm *c, int *code) {
  if (atomic_fetch_add(&c->callers, 1)) standin_violation("ncclCommGetAsyncError: two threads call it at once");
  if (c->polls > 0) usleep(500);
  atomic_fetch_sub(&c->callers, 1);
  if (c->broken) *code = c->broken;
  else if (atomic_load(&c->shared->joined) < c->world) *code = IN_PROGRESS;
  else *code = c->polls > 0 ? (c->polls--, IN_PROGRESS) : SUCCESS;
  return SUCCESS;
}
int ncclCommFinalize(Comm *c) {
  if (standin_call("ncclCommFinalize")) return UNHANDLED_CUDA;
  c->polls = 2;
  return IN_PROGRESS;
}
int ncclCommDestroy(Comm *c) {
  if (standin_call("ncclCommDestroy")) return UNHANDLED_CUDA;
  if (c->graphs) { // NVIDIA's waits until they are gone
    standin_violation("ncclCommDestroy: %d graphs that captured its collectives still live", c->graphs);
    return INVALID_ARGUMENT;
  }
  if (atomic_fetch_add(&c->shared->left, 1) + 1 == c->world) shm_unlink(c->name);
  return SUCCESS;
}
int ncclCommAbort(Comm *c) {
  standin_count("call", "ncclCommAbort", 0);
  atomic_store(&c->shared->aborted, 1);
  shm_unlink(c->name);
  return SUCCESS;
}
int ncclGroupStart(void) { return SUCCESS; }
int ncclGroupEnd(void) { return SUCCESS; }

// ---- numbers of every type as doubles

static double get(const char *at, int type) {
  switch (type) {
    case 0: return *(const signed char *)at;
    case 2: return *(const int *)at;
    case 4: return *(const int64_t *)at;
    case 6: return *(const _Float16 *)at;
    case 7: return *(const float *)at;
    case 8: return *(const double *)at;
    case 9: {
      uint32_t bits = (uint32_t)*(const uint16_t *)at << 16;
      float value;
      memcpy(&value, &bits, 4);
      return value;
    }
    default: return *(const unsigned char *)at;
  }
}
static void put(char *at, int type, double value) {
  switch (type) {
    case 0: *(signed char *)at = value; break;
    case 2: *(int *)at = value; break;
    case 4: *(int64_t *)at = value; break;
    case 6: *(_Float16 *)at = value; break;
    case 7: *(float *)at = value; break;
    case 8: *(double *)at = value; break;
    case 9: {
      float exact = value;
      uint32_t bits;
      memcpy(&bits, &exact, 4);
      bits += 0x7fff + ((bits >> 16) & 1);
      *(uint16_t *)at = bits >> 16;
      break;
    }
    default: *(unsigned char *)at = value;
  }
}

// ---- collectives

typedef enum { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER } Verb;
typedef struct {
  Verb verb;
  Comm *comm;
  const char *from;
  char *to;
  size_t count;
  int type, op, root;
} Work;

/** All ranks come here; 0 where the communicator was aborted meanwhile. */
static int meet(Comm *c) {
  Shared *s = c->shared;
  int turn = atomic_load(&s->turn);
  if (atomic_fetch_add(&s->arrived, 1) + 1 == c->world) {
    atomic_store(&s->arrived, 0);
    atomic_fetch_add(&s->turn, 1);
  }
  while (atomic_load(&s->turn) == turn && !atomic_load(&s->aborted)) usleep(20);
  return !atomic_load(&s->aborted);
}

/** The commonest by far: gradients. */
static void add_floats(const Work *w, float *to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    double value = ((const float *)w->comm->shared->rows[0])[i];
    for (int r = 1; r < w->comm->world; r++) value += ((const float *)w->comm->shared->rows[r])[i];
    to[i] = (float)value;
  }
}

/** Every rank's part lies in its row; `to` gets their sum, least or most. */
static void combine(const Work *w, char *to, size_t count) {
  int width = WIDTHS[w->type];
  if (w->type == FLOAT && w->op == SUM) return add_floats(w, (float *)to, count);
  for (size_t i = 0; i < count; i++) {
    double value = get(w->comm->shared->rows[0] + i * width, w->type);
    for (int r = 1; r < w->comm->world; r++) {
      double x = get(w->comm->shared->rows[r] + i * width, w->type);
      value = w->op == SUM ? value + x : w->op == MAX ? (x > value ? x : value) : (x < value ? x : value);
    }
    put(to + i * width, w->type, value);
  }
}

static void part(const Work *w, const char *from, char *to, size_t at, size_t count) {
  Comm *c = w->comm;
  size_t width = WIDTHS[w->type], bytes = count * width;
  memcpy(c->shared->rows[c->rank], from + at * width, bytes);
  if (!meet(c)) return;
  if (w->verb == ALL_REDUCE) combine(w, to + at * width, count);
  if (w->verb == BROADCAST) memcpy(to + at * width, c->shared->rows[w->root], bytes);
  if (w->verb == ALL_GATHER) {
    for (int r = 0; r < c->world; r++) memcpy(to + (r * w->count + at) * width, c->shared->rows[r], bytes);
  }
  if (w->verb == REDUCE_SCATTER) {
    char *all = malloc(bytes);
    combine(w, all, count);
    size_t first = w->count * c->rank, last = first + w->count;
    for (size_t i = 0; i < count; i++) {
      if (at + i >= first && at + i < last) memcpy(to + (at + i - first) * width, all + i * width, width);
    }
    free(all);
  }
  meet(c);
}

static void work(void *data) {
  Work *w = data;
  size_t total = w->verb == REDUCE_SCATTER ? w->count * w->comm->world : w->count, most = CHUNK / WIDTHS[w->type];
  for (size_t at = 0; at < total && !atomic_load(&w->comm->shared->aborted); at += most) {
    part(w, standin_bytes(w->from), standin_bytes(w->to), at, total - at < most ? total - at : most);
  }
}

static int begin(const char *name, Work like, size_t read, size_t written, void *stream) {
  static int connected;
  if (standin_call(name)) return UNHANDLED_CUDA;
  if (like.type < 0 || like.type >= TYPES) {
    standin_violation("%s of type %d", name, like.type);
    return INVALID_ARGUMENT;
  }
  size_t width = WIDTHS[like.type];
  int fine = standin_owns(like.from, read * width, name, "source") && standin_owns(like.to, written * width, name, "target");
  if (like.count && !fine) return INVALID_ARGUMENT;
  standin_count("collective", name, read * width);
  standin_access(stream, like.from, read * width, 0, name, 1);
  standin_access(stream, like.to, written * width, 1, name, 0);
  Work *w = malloc(sizeof *w); // kept: a graph may run it again
  *w = like;
  standin_host_work(name, stream, work, w);
  standin_captured(stream, &like.comm->graphs);
  if (connected) return SUCCESS;
  connected = 1;
  like.comm->polls = 3; // the first one connects the ranks
  return IN_PROGRESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Comm *c, void *stream) {
  return begin("ncclAllReduce", (Work){ALL_REDUCE, c, from, to, count, type, op, 0}, count, count, stream);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, Comm *c, void *stream) {
  return begin("ncclBroadcast", (Work){BROADCAST, c, from, to, count, type, SUM, root}, count, count, stream);
}
int ncclAllGather(const void *from, void *to, size_t count, int type, Comm *c, void *stream) {
  return begin("ncclAllGather", (Work){ALL_GATHER, c, from, to, count, type, SUM, 0}, count, count * c->world, stream);
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, Comm *c, void *stream) {
  return begin("ncclReduceScatter", (Work){REDUCE_SCATTER, c, from, to, count, type, op, 0}, count * c->world, count, stream);
}
