/* The C interface, from C99: answers, errors as values, who owns what, handles after close, threads. */
#define _POSIX_C_SOURCE 200809L
#include <ddlsim/ddlsim.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                             \
    }                                                                         \
  } while (0)

static const char kJob[] = "{\"model\": \"resnet50\", \"node\": \"dgx1-v100\", \"nodes\": 4, \"network\": \"25 Gb/s\"}";

/* The number after `key` in an answer. */
static double number_of(const char* json, const char* key) {
  const char* at = json == NULL ? NULL : strstr(json, key);
  return at == NULL ? NAN : strtod(at + strlen(key), NULL);
}

static double predicted(ddlsim_handle catalog, const char* job) {
  char* answer = NULL;
  double step = NAN;
  if (ddlsim_ask(catalog, "predict", job, &answer) == DDLSIM_OK) step = number_of(answer, "\"step_time_s\": ");
  ddlsim_free(answer);
  return step;
}

static void refused(ddlsim_handle catalog, const char* command, const char* request, ddlsim_code code, const char* says) {
  char* answer = NULL;
  const ddlsim_code got = ddlsim_ask(catalog, command, request, &answer);
  if (got != code || answer == NULL || strstr(answer, says) == NULL) {
    fprintf(stderr, "%s: code %d, not %d, or no '%s' in %s\n", request == NULL ? "NULL" : request, (int)got, (int)code, says,
            answer == NULL ? "nothing" : answer);
    ++failures;
  }
  ddlsim_free(answer);
}

static void check_questions(ddlsim_handle catalog) {
  static const char* const requests[][3] = {
      {"predict", "model: resnet50\nnode: dgx1-v100\n", "\"schema\": \"ddlsim/predict/1\""},
      {"what-if", "{\"job\": {\"model\": \"resnet50\", \"node\": \"dgx1-v100\"}, \"vs\": [{\"nodes\": 2}]}", "\"speedup\""},
      {"find", "{\"job\": {\"model\": \"resnet50\", \"node\": \"dgx1-v100\", \"nodes\": 4}, \"variable\": \"network\", "
               "\"such_that\": \"scaling_efficiency >= 90 %\"}", "\"schema\": \"ddlsim/find/1\""},
      {"explain", "{\"model\": \"resnet50\", \"node\": \"dgx1-v100\"}", "\"schema\": \"ddlsim/explain/1\""},
  };
  for (size_t i = 0; i < sizeof requests / sizeof requests[0]; ++i) {
    char* answer = NULL;
    CHECK(ddlsim_ask(catalog, requests[i][0], requests[i][1], &answer) == DDLSIM_OK);
    CHECK(answer != NULL && strstr(answer, requests[i][2]) != NULL);
    ddlsim_free(answer);
  }
}

static void check_refusals(ddlsim_handle catalog) {
  refused(catalog, "predict", "{", DDLSIM_PARSE, "\"code\": \"parse\"");
  refused(catalog, "predict", "", DDLSIM_PARSE, "ddlsim/error/1");
  refused(catalog, "predcit", "{}", DDLSIM_NOT_FOUND, "predict");
  refused(catalog, "predict", "{\"model\": \"resnet5O\", \"node\": \"dgx1-v100\"}", DDLSIM_NOT_FOUND, "resnet50");
  refused(catalog, "predict", "{\"model\": \"resnet50\", \"node\": \"dgx1-v100\", \"network\": 25}", DDLSIM_PARSE, "network");
  refused(catalog, NULL, kJob, DDLSIM_INVALID_ARGUMENT, "command is NULL");
  refused(catalog, "predict", NULL, DDLSIM_INVALID_ARGUMENT, "request is NULL");
  CHECK(ddlsim_ask(catalog, "predict", kJob, NULL) == DDLSIM_INVALID_ARGUMENT);
  CHECK(ddlsim_open(NULL, NULL, NULL) == DDLSIM_INVALID_ARGUMENT);
  ddlsim_handle none = 1;
  char* error = NULL;
  CHECK(ddlsim_open("/nowhere", &none, &error) == DDLSIM_IO);
  CHECK(none == 0);
  CHECK(error != NULL && strstr(error, "/nowhere") != NULL);
  ddlsim_free(error);
  ddlsim_free(NULL);
}

static void check_sweep(ddlsim_handle catalog) {
  const char* const paths[] = {"network", "nodes"};
  const char* const units[] = {"Gb/s", ""};
  const double values[] = {10, 2, 37.5, 4, 100, 16, 0.1, 8, NAN, 4, 25, 1.5};
  double times[6];
  ddlsim_code codes[6];
  char* error = NULL;
  const char* const job = "{\"model\": \"resnet50\", \"node\": \"dgx1-v100\"}";
  CHECK(ddlsim_step_times(catalog, job, 2, paths, units, 4, values, times, codes, &error) == DDLSIM_OK);
  CHECK(error == NULL);
  for (int p = 0; p < 4; ++p) {
    char one[200];
    snprintf(one, sizeof one, "{model: resnet50, node: dgx1-v100, network: %.17g Gb/s, nodes: %.0f}", values[2 * p], values[2 * p + 1]);
    CHECK(codes[p] == DDLSIM_OK);
    CHECK(times[p] == predicted(catalog, one)); /* the same bits */
  }
  CHECK(ddlsim_step_times(catalog, job, 2, paths, units, 6, values, times, codes, &error) == DDLSIM_INVALID_ARGUMENT);
  CHECK(error != NULL && number_of(error, "\"point\": ") == 4);
  ddlsim_free(error);
  CHECK(isnan(times[4]) && isnan(times[5]) && !isnan(times[3]));
  CHECK(codes[4] != DDLSIM_OK && codes[5] != DDLSIM_OK && codes[3] == DDLSIM_OK);
  CHECK(ddlsim_step_times(catalog, "{", 2, paths, units, 4, values, times, NULL, NULL) == DDLSIM_PARSE);
  CHECK(ddlsim_step_times(catalog, job, 2, NULL, units, 4, values, times, NULL, NULL) == DDLSIM_INVALID_ARGUMENT);
  CHECK(ddlsim_step_times(catalog, job, 2, paths, units, 4, NULL, times, NULL, NULL) == DDLSIM_INVALID_ARGUMENT);
  CHECK(ddlsim_step_times(catalog, job, 0, NULL, NULL, 1, NULL, times, NULL, NULL) == DDLSIM_OK);
  CHECK(times[0] == predicted(catalog, job));
}

static ddlsim_handle shared;
static double expected;

static void* ask_often(void* unused) {
  (void)unused;
  for (int i = 0; i < 20; ++i) {
    if (predicted(shared, kJob) != expected) return (void*)&expected;
  }
  return NULL;
}

/* Asks until the handle is closed: right answers, then DDLSIM_CLOSED, nothing else. */
static void* ask_until_closed(void* unused) {
  (void)unused;
  for (;;) {
    char* answer = NULL;
    const ddlsim_code code = ddlsim_ask(shared, "predict", kJob, &answer);
    const int right = code == DDLSIM_OK && number_of(answer, "\"step_time_s\": ") == expected;
    ddlsim_free(answer);
    if (code == DDLSIM_CLOSED) return NULL;
    if (!right) return (void*)&expected;
  }
}

static void in_threads(void* (*work)(void*), int close) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  if (close) CHECK(ddlsim_close(shared) == DDLSIM_OK);
  for (int i = 0; i < 4; ++i) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    CHECK(wrong == NULL);
  }
}

static void check_handles(void) {
  ddlsim_handle first = 0;
  ddlsim_handle second = 0;
  CHECK(ddlsim_open(NULL, &first, NULL) == DDLSIM_OK);
  CHECK(ddlsim_close(first) == DDLSIM_OK);
  CHECK(ddlsim_close(first) == DDLSIM_CLOSED);
  CHECK(ddlsim_open(NULL, &second, NULL) == DDLSIM_OK);
  CHECK(first != second); /* though the place is the same */
  refused(first, "predict", kJob, DDLSIM_CLOSED, "\"code\": \"closed\"");
  refused(0, "predict", kJob, DDLSIM_CLOSED, "\"code\": \"closed\"");
  refused(UINT64_MAX, "predict", kJob, DDLSIM_CLOSED, "\"code\": \"closed\"");
  double time = 0;
  CHECK(ddlsim_step_times(first, kJob, 0, NULL, NULL, 1, NULL, &time, NULL, NULL) == DDLSIM_CLOSED);
  CHECK(predicted(second, kJob) == expected);
  CHECK(ddlsim_close(second) == DDLSIM_OK);
}

/* With an argument: the answers to requests of that command, one a line of standard input, each with a form feed after
   it. */
static int print_answers(const char* command) {
  static char request[10000];
  ddlsim_handle catalog = 0;
  if (ddlsim_open(NULL, &catalog, NULL) != DDLSIM_OK) return 1;
  while (fgets(request, sizeof request, stdin) != NULL) {
    char* answer = NULL;
    ddlsim_ask(catalog, command, request, &answer);
    if (answer != NULL) fputs(answer, stdout);
    putchar('\f');
    ddlsim_free(answer);
  }
  return ddlsim_close(catalog) == DDLSIM_OK ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc == 2) return print_answers(argv[1]);
  CHECK(ddlsim_abi() == DDLSIM_ABI);
  CHECK(strlen(ddlsim_version()) >= 5);
  CHECK(ddlsim_open(NULL, &shared, NULL) == DDLSIM_OK);
  expected = predicted(shared, kJob);
  CHECK(expected > 0.01 && expected < 1);
  check_questions(shared);
  check_refusals(shared);
  check_sweep(shared);
  check_handles();
  in_threads(ask_often, 0);
  in_threads(ask_until_closed, 1);
  if (failures == 0) puts("all so");
  return failures == 0 ? 0 : 1;
}
