/* Uses an exported library as programs should not, with spoken_driver.c in the place of the driver: a context of the
 * caller's, a fork, and the library opened twice. Arguments: two copies of the library. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gemm_tuned.h"

static float memory[4096];

typedef struct {
    int (*create)(gemm_tuned **tuned, int device);
    void (*destroy)(gemm_tuned *tuned);
    int (*run)(gemm_tuned *tuned, const gemm_tuned_problem *problem, const gemm_tuned_operands *operands,
               void *workspace, size_t workspace_bytes, void *stream);
    const char *(*text)(int status);
    gemm_tuned *tuned;
} library;

static void set(void *function, void *opened, const char *name)
{
    void *symbol = dlsym(opened, name);
    memcpy(function, &symbol, sizeof symbol);
}

static int opened(const char *path, library *own)
{
    void *at = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (at == NULL)
        return 0;
    set(&own->create, at, "gemm_tuned_create");
    set(&own->destroy, at, "gemm_tuned_destroy");
    set(&own->run, at, "gemm_tuned_run");
    set(&own->text, at, "gemm_tuned_status_string");
    return 1;
}

static int run(const library *own)
{
    gemm_tuned_problem problem = gemm_tuned_default_problem();
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    problem.m = 44, problem.n = 31, problem.k = 23;
    operands.a = memory, operands.b = memory + 64, operands.d = memory + 128;
    return own->run(own->tuned, &problem, &operands, NULL, 0, NULL);
}

int main(int count, char **paths)
{
    library libraries[2];
    void *driver;
    void (*set_current)(void *context);
    void *(*current)(void);
    int i, other, status;
    if (count != 3 || !opened(paths[1], &libraries[0]) || !opened(paths[2], &libraries[1]))
        return 1;
    for (i = 0; i < 2; i++)
        if (libraries[i].create(&libraries[i].tuned, 0) != 0)
            return 2;
    printf("twice %d %d\n", run(&libraries[0]), run(&libraries[1]));
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    set(&set_current, driver, "spoken_context");
    set(&current, driver, "spoken_current");
    set_current(&other);
    printf("another context %d\n", run(&libraries[0]));
    printf("it is current %d\n", current() == (void *)&other);
    set_current(NULL);
    fflush(stdout);
    if (fork() == 0) {
        status = run(&libraries[0]);
        libraries[0].destroy(libraries[0].tuned);
        printf("fork %d\n", status);
        return 0;
    }
    wait(&status);
    printf("after the fork %d\n", run(&libraries[0]));
    libraries[0].destroy(libraries[0].tuned);
    printf("after the other ended %d\n", run(&libraries[1]));
    libraries[1].destroy(libraries[1].tuned);
    return status != 0;
}
