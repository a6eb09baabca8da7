/* Making and ending handles ----------------------------------------------------------------------------- */

int gemm_tuned_create(gemm_tuned **out, int device)
{
    gemm_tuned *tuned;
    int status;
    if (out == NULL)
        return GEMM_TUNED_BAD_ARGUMENT;
    *out = NULL;
    if (device < GEMM_TUNED_CURRENT_CONTEXT)
        return GEMM_TUNED_BAD_ARGUMENT;
    tuned = (gemm_tuned *)calloc(1, sizeof *tuned);
    if (tuned == NULL)
        return GEMM_TUNED_NO_MEMORY;
    status = load_driver(&tuned->cuda);
    if (status == 0 && device == GEMM_TUNED_CURRENT_CONTEXT) {
        if ((status = tuned->cuda.current(&tuned->context)) == 0)
            status = tuned->cuda.context_device(&tuned->device);
    } else if (status == 0 && (status = tuned->cuda.device_get(&tuned->device, device)) == 0) {
        status = tuned->cuda.primary_retain(&tuned->context, tuned->device);
        tuned->is_primary = status == 0;
    }
    if (status == 0)
        status = select_architecture(tuned);
    if (status == 0)
        status = make_pool(tuned);
    if (status == 0)
        status = measuring_of_environment(tuned);
@L@    tuned->is_library_off = is_library_off();
    if (status == 0)
        *out = tuned;
    else
        gemm_tuned_destroy(tuned);
    return status;
}

void gemm_tuned_destroy(gemm_tuned *tuned)
{
    int i, pushed;
    if (tuned == NULL)
        return;
    if (tuned->context != NULL && enter(tuned, &pushed) == 0) {
        for (i = 0; i < IMAGES; i++)
            if (tuned->modules[i] != NULL)
                tuned->cuda.unload(tuned->modules[i]);
        free_memory(tuned);
@L@        close_library((library_handle *)tuned->lt, &lt_kind);
@L@        close_library((library_handle *)tuned->cublas, &cublas_kind);
        leave(tuned, pushed);
    }
    if (tuned->is_primary)
        tuned->cuda.primary_release(tuned->device);
    for (i = 0; i < SLOTS; i++) {
        free(tuned->plans[i]);
        free(tuned->map_sets[i]);
        free(tuned->fastest[i]);
    }
    free(tuned);
}

