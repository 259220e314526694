// CUPTI, which profiles nothing here, and NVRTC, which compiles nothing.
#include "standin.h"
#ifdef STANDIN_libcupti
int cuptiSubscribe(void) { return 38; }              // it is subscribed by someone else
int cuptiActivityGetNextRecord(void) { return 12; }  // there is none
int cuptiGetResultString(int code, const char **text) { (void)code; *text = "the CUDA stand-in has no CUPTI"; return 0; }
int cuptiGetVersion(unsigned *version) { *version = 130200; return 0; }
#endif
#ifdef STANDIN_libnvrtc
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 2; return 0; }
const char *nvrtcGetErrorString(int code) { (void)code; return "the CUDA stand-in has no compiler"; }
int nvrtcCompileProgram(void) { return 6; }
#endif
