// Shared by the sources of libcudart's stand-in alone.
#pragma once
#include "standin.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cuda_runtime_api.h"

#define MOST_DEVICES 8

typedef struct {
  int late;       // work runs when somebody waits for it; else at once
  int zeros;      // small results that are read back are zeros
  int tick_ms;    // late, but everything queued runs so often: other processes wait for it
  int devices, visible[MOST_DEVICES], capability[MOST_DEVICES];
  int driver;             // the CUDA that it serves; 0: there is none
  uint64_t memory, taken; // bytes of a device, and what other processes hold of it
} Settings;
extern Settings settings;

extern pthread_mutex_t standin_lock;
void standin_open(void);
#define LOCK() do { standin_open(); pthread_mutex_lock(&standin_lock); } while (0)
#define UNLOCK() pthread_mutex_unlock(&standin_lock)

extern __thread int device_now;
/** Keeps the error for cudaGetLastError. */
cudaError_t failed(cudaError_t code);
/** The same, and a violation. */
cudaError_t wrong(cudaError_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Begins each function of the interface. */
#define CALL(name)                                              \
  do {                                                          \
    cudaError_t on_demand = (cudaError_t)standin_call(#name);   \
    if (on_demand) return on_demand;                            \
  } while (0)
/** A count that goes up and down, with the most at a time. */
void gauge(const char *name, int64_t by);

// ---- memory

typedef enum { DEVICE, PINNED, REGISTERED } Sort;
typedef struct Block {
  char *at;
  size_t size;
  int device, live;
  Sort sort;
  int writes, reads; // copies under way of page-locked memory
  struct Block *next;
} Block;
void open_memory(void);
int device_of(const void *at);
Block *block_of(const void *at);
/** The host may not touch what a queued copy writes, nor change what it reads. */
void guard(Block *block, int writes, int reads);

// ---- streams and events

typedef struct Event Event;
typedef struct Stream Stream;
typedef enum { COPY, COPY_ROWS, SET, KERNEL, HOST, RECORD, WAIT } Kind;
typedef struct Op {
  Kind kind;
  const char *name;
  char *to;
  const char *from;
  size_t bytes, to_pitch, from_pitch, rows;
  int value;
  void *staged; // pageable bytes, taken along by the call
  void (*run)(void *);
  void *data;
  Event *event;
  uint64_t ticket;
  Block *target, *source;
  struct Op *next;
} Op;

#define LANES 64
typedef struct {
  uint32_t at[LANES];
} Clock;

typedef struct Access {
  const char *from, *to;
  int write, lane, stream;
  uint32_t clock;
  char what[96];
  struct Access *next;
} Access;

#define MOST_USERS 4
typedef struct Graph {
  Op *first, *last;
  size_t count;
  Access *accesses; // what its work reads and writes
  int valid;
  int handles; // the graph itself and what was made of it
  int *users[MOST_USERS]; // each counts the graphs that refer to it
  int user_count;
} Graph;

struct Stream {
  uint32_t magic;
  int id, device, priority;
  unsigned flags;
  Op *first, *last;
  Graph *capturing;
  unsigned long long capture_id;
  int running;
  pthread_t runner;
  int lane;
  Clock clock;
};
struct Event {
  uint32_t magic;
  unsigned flags;
  int device;
  uint64_t queued, done;
  double at;
  Stream *stream;
  Graph *captured;
  Clock clock;
};
#define STREAM_MAGIC 0x57bea3u
#define EVENT_MAGIC 0xe7e27u
#define DEAD 0xdeadu
#define MOST_STREAMS 4096

/** Streams that were made, then each device's default one. */
Stream *stream_at(int i);
int streams_in_all(void);
Stream *stream_of(cudaStream_t handle, const char *call);
/** Takes over op.staged. */
void queue(Stream *s, Op op);
/** All that is queued, or until the event has been recorded. */
void run_stream(Stream *s, Event *until, uint64_t ticket);
void run_device(int device);
/** The host has waited for the stream. */
void host_follows(const Clock *clock);
/** One more piece of work on the stream. */
void tick_clock(Stream *s);
void access_bytes(Stream *s, const void *at, size_t bytes, int write, const char *what);
void forget_accesses(const void *at, size_t bytes);
void *ticking(void *none);

/** What a capture forbids: the capture fails, and so does the call. */
cudaError_t forbidden(const char *call);
