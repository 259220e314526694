// Shared by the sources of the CUDA stand-in. docs/design/cuda-stand-in.md tells how it works.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// libcudart has these, for every library of the stand-in and for the tests.

/** Counts a thing of a kind: "copy", "device to pinned". */
void standin_count(const char *kind, const char *name, uint64_t bytes);
/** What a GPU would punish with wrong numbers, a fault or a hang. */
void standin_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Counts a call; its result is an error to give back: one on demand, or the device's last words. */
int standin_call(const char *name);
/** A function that no stand-in was written for. */
int standin_stub(const char *library, const char *name);
/** A kernel of NVIDIA's library, queued on a stream. */
int standin_library_kernel(const char *name, void *stream);
/** An operator of `numbers`: counted as a launch on this stream. */
int standin_operator(const char *name, void *stream);
/** The function runs when its stream comes to it. */
void standin_host_work(const char *name, void *stream, void (*run)(void *), void *data);
/** Where the stream is captured, its graph refers to this: `graphs` counts those that live. */
void standin_captured(void *stream, int *graphs);
/** Work on the stream reads or writes these bytes; `first` of a call. */
void standin_access(void *stream, const void *at, size_t bytes, int write, const char *what, int first);
/** The bytes of a device's address; of the host's, the address itself. */
void *standin_bytes(const void *at);
/** 1 when all of it is the current device's memory; else a violation. */
int standin_owns(const void *at, size_t bytes, const char *call, const char *role);
/** 1 when work is queued and runs later. */
int standin_is_late(void);
int standin_devices(void);
int standin_capability(int device);
int standin_driver(void);
uint64_t standin_memory(void);
uint64_t standin_free_memory(int device);
const char *standin_name(void);
void standin_uuid(int device, unsigned char *sixteen);
/** AMD's number of a GPU. */
uint64_t standin_unique(int device);

// For a test in the same process.

/** late, tick_ms, fail (null: none), most_violations */
void standin_set(const char *what, const char *value);
/** "kind:name count bytes" a line; returns the bytes that it takes. */
size_t standin_report(char *to, size_t room);
void standin_reset(void);

#ifdef __cplusplus
}
#endif
