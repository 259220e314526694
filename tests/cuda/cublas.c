// cuBLAS and cuBLASLt: handles that answer, products that are counted. `numbers` computes above them.
#include "standin.h"
#include <stdlib.h>
#include <string.h>

#ifdef STANDIN_libcublas
typedef struct {
  void *stream;
  int math, pointers;
} Handle;
int cublasCreate_v2(void **h) { *h = calloc(1, sizeof(Handle)); return 0; }
int cublasDestroy_v2(void *h) { free(h); return 0; }
int cublasSetStream_v2(Handle *h, void *stream) { h->stream = stream; return 0; }
int cublasSetWorkspace_v2(Handle *h, void *at, size_t bytes) { (void)h, (void)at, (void)bytes; return 0; }
int cublasGetMathMode(Handle *h, int *mode) { *mode = h->math; return 0; }
int cublasSetMathMode(Handle *h, int mode) { h->math = mode; return 0; }
int cublasGetPointerMode_v2(Handle *h, int *mode) { *mode = h->pointers; return 0; }
int cublasSetPointerMode_v2(Handle *h, int mode) { h->pointers = mode; return 0; }
#define PRODUCT(name) int name(Handle *h, ...) { return standin_library_kernel(#name, h->stream); }
PRODUCT(cublasSgemm_v2) PRODUCT(cublasDgemm_v2) PRODUCT(cublasGemmEx) PRODUCT(cublasGemmStridedBatchedEx) PRODUCT(cublasSgemmEx)
PRODUCT(cublasSgemmStridedBatched) PRODUCT(cublasDgemmStridedBatched) PRODUCT(cublasSgemv_v2) PRODUCT(cublasDgemv_v2)
PRODUCT(cublasSdot_v2) PRODUCT(cublasDdot_v2) PRODUCT(cublasDotEx)
#endif

#ifdef STANDIN_libcublasLt
#define MADE(name) int name(void **out, ...) { *out = calloc(1, 64); return 0; }
#define GONE(name) int name(void *it) { free(it); return 0; }
MADE(cublasLtCreate) MADE(cublasLtMatmulDescCreate) MADE(cublasLtMatrixLayoutCreate) MADE(cublasLtMatmulPreferenceCreate)
GONE(cublasLtMatmulDescDestroy) GONE(cublasLtMatrixLayoutDestroy) GONE(cublasLtMatmulPreferenceDestroy)
size_t cublasLtGetVersion(void) { return 130200; }
/** One algorithm, which needs no workspace: the result has 64 bytes of it, then the workspace, and is 96 bytes long. */
int cublasLtMatmulAlgoGetHeuristic(void *h, void *product, void *a, void *b, void *c, void *d, void *preference, int asked,
                                   void *results, int *given) {
  (void)h, (void)product, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)asked;
  memset(results, 0, 96);
  *given = 1;
  return 0;
}
int cublasLtMatmul(void *h, void *product, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
                   const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algorithm,
                   void *workspace, size_t bytes, void *stream) {
  (void)h, (void)product, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c, (void)c_layout;
  (void)d, (void)d_layout, (void)algorithm, (void)workspace, (void)bytes;
  return standin_library_kernel("cublasLtMatmul", stream);
}
#endif
