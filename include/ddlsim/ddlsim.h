/* ddlsim for programs in C, and in every language that calls C.
 *
 *   #include <ddlsim/ddlsim.h>                        cc job.c $(pkg-config --cflags --libs ddlsim)
 *   ddlsim_handle catalog;
 *   char* answer;
 *   ddlsim_open(NULL, &catalog, &answer);
 *   ddlsim_ask(catalog, "predict", "{\"model\": \"resnet50\", \"node\": \"dgx-a100\"}", &answer);
 *   puts(answer); ddlsim_free(answer); ddlsim_close(catalog);
 *
 * Requests and answers are those of `ddlsim serve` (ddlsim/service/service.h): JSON or YAML in, what the command prints
 * with --json out.
 *
 * Ownership: what a function puts into a `char**` is the caller's; ddlsim_free gives it back. It is NULL where there is
 * nothing to say. Pointers that are passed in are read during the call alone.
 *
 * Errors are values: a code, and a text {"schema": "ddlsim/error/1", "code", "error", "line", "column", "notes",
 * "also"}, whose "code" is the code's name in small letters, as "out-of-time". No C++ exception leaves a function, none
 * ends the process, none prints.
 *
 * Threads may call everything at once, with one handle too. A handle that is closed while others ask with it lives
 * until they have their answers; a closed handle, or one that was never open, is DDLSIM_CLOSED, never another
 * catalogue: handles are not used again. After fork(), the child may call what it likes if no other thread was inside a
 * call.
 *
 * The ABI has the version DDLSIM_ABI (the library's SOVERSION). Functions and codes may be added; what stands here
 * keeps its meaning. */
#ifndef DDLSIM_DDLSIM_H
#define DDLSIM_DDLSIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DDLSIM_API __attribute__((visibility("default")))
#else
#define DDLSIM_API
#endif

#define DDLSIM_ABI 1

/* An open catalogue. 0 is none. */
typedef uint64_t ddlsim_handle;

/* An int32_t in every call, so that the size of an enumeration is nobody's business. */
typedef int32_t ddlsim_code;
/* NOLINTBEGIN(readability-identifier-naming): names as C has them */
enum {
  DDLSIM_OK = 0,
  DDLSIM_PARSE = 1, /* a text is not what it should be: JSON or YAML, a request, a whole number, a quantity */
  DDLSIM_INVALID_ARGUMENT = 2, /* a value that cannot be taken; a NULL where something must stand */
  DDLSIM_NOT_FOUND = 3,        /* a name that nobody knows */
  DDLSIM_UNSUPPORTED = 4,      /* understood, but not modelled */
  DDLSIM_INFEASIBLE = 5,       /* modelled, and it cannot be done */
  DDLSIM_IO = 6,               /* a file could not be read */
  DDLSIM_CLOSED = 7,           /* the handle is closed, or was never open */
  DDLSIM_NO_MEMORY = 8,        /* the answer's text may be NULL then */
  DDLSIM_FAULT = 9,            /* of ddlsim itself */
  DDLSIM_OUT_OF_TIME = 10      /* the time that was allowed ended before there was an answer */
};
/* NOLINTEND(readability-identifier-naming) */

/* The version of the program, as "0.1.0", and of the library that was loaded, as DDLSIM_ABI. The text stays. */
DDLSIM_API const char* ddlsim_version(void);
DDLSIM_API int32_t ddlsim_abi(void);

/* Opens the folder that holds models/ and hardware/; NULL: the one that was installed, or built, with the library.
 * `error` may be NULL; it gets a text when the code is not DDLSIM_OK, else NULL. */
DDLSIM_API ddlsim_code ddlsim_open(const char* folder, ddlsim_handle* catalog, char** error);

/* Closes a catalogue. DDLSIM_CLOSED: it was not open; nothing happened. */
DDLSIM_API ddlsim_code ddlsim_close(ddlsim_handle catalog);

/* Asks `command`: "predict", "what-if", "find", "plan", "explain", "stalls" or "recommend". `request` ends at its first
 * NUL. `answer` gets the answer with DDLSIM_OK, else the error. */
DDLSIM_API ddlsim_code ddlsim_ask(ddlsim_handle catalog, const char* command, const char* request, char** answer);

/* The step time of `points` jobs: `job` (a map of settings) with `settings` of them changed, point by point. Value
 * values[p * settings + s] is setting paths[s] in the unit units[s] ("Gb/s", "us", "" for counts) at point p; it is
 * read as the decimal number that gives these very bits, so a count must be a whole number. Measured runs in `job`
 * (measured.step, ...) are of `job` as it stands, and correct every point, as in a sweep. times[p] gets the step in
 * seconds, or NaN; codes[p], where `codes` is not NULL, why. The code is DDLSIM_OK when all points have an answer, else
 * that of the first that has none; `error` (may be NULL) then gets its text, which has the number of the point as
 * "point". When the question itself is wrong, no time and no code is written. */
DDLSIM_API ddlsim_code ddlsim_step_times(ddlsim_handle catalog, const char* job, size_t settings,
                                         const char* const* paths, const char* const* units, size_t points,
                                         const double* values, double* times, ddlsim_code* codes, char** error);

/* Gives back a text of these functions. NULL does nothing. */
DDLSIM_API void ddlsim_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
