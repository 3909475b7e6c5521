/* Storages: refcounted bytes that tensors and plans share, on the host, on a device or on both.
 * They outlive graphs. */
#include "context.h"

static tp_storage *create(tp_context *context, void *data, size_t size_bytes)
{
    tp_storage *storage = tp_context_alloc_zero(context, sizeof *storage);
    if (!storage) return NULL;
    storage->context = tp_context_retain(context);
    storage->data = data;
    storage->size_bytes = size_bytes;
    storage->refcount = 1;
    return storage;
}

tp_storage *tp_storage_create(tp_context *context, size_t size_bytes)
{
    size_t block_bytes;
    void *data = tp_context_take_block(context, size_bytes, &block_bytes);
    if (!data) return NULL;
    tp_storage *storage = create(context, data, size_bytes);
    if (!storage) {
        tp_context_give_block(context, data, block_bytes);
        return NULL;
    }
    storage->block_bytes = block_bytes;
    return storage;
}

tp_storage *tp_storage_wrap(tp_context *context, void *data, size_t size_bytes,
                            void (*release)(void *, void *), void *user)
{
    tp_storage *storage = create(context, data, size_bytes);
    if (!storage) return NULL;
    storage->release = release;
    storage->release_user = user;
    return storage;
}

tp_storage *tp_storage_create_on(const tp_device *device, tp_context *context, size_t size_bytes,
                                 tp_status *status)
{
    char *memory = device->alloc(size_bytes ? size_bytes : 1);
    if (!memory) {
        *status = device->status();
        return NULL;
    }
    tp_storage *storage = create(context, NULL, size_bytes);
    *status = storage ? TP_OK : TP_E_NOMEM;
    if (!storage) {
        device->release(memory);
        return NULL;
    }
    storage->device = device;
    storage->device_data = memory;
    storage->host_stale = true;
    return storage;
}

static void leave_device(tp_storage *storage)
{
    if (storage->device) storage->device->release(storage->device_data);
    storage->device = NULL;
    storage->device_data = NULL;
}

bool tp_storage_is_on(const tp_storage *storage, const tp_device *device)
{
    return device ? storage->device == device : !storage->host_stale;
}

static tp_status bring_to_host(tp_storage *storage)
{
    if (!storage->data) {
        storage->data =
            tp_context_take_block(storage->context, storage->size_bytes, &storage->block_bytes);
        if (!storage->data) return TP_E_NOMEM;
    }
    if (storage->size_bytes)
        TRY(storage->device->download(storage->data, storage->device_data, storage->size_bytes));
    storage->host_stale = false;
    return TP_OK;
}

tp_status tp_storage_bring(tp_storage *storage, const tp_device *device)
{
    if (tp_storage_is_on(storage, device)) return TP_OK;
    if (storage->host_stale) TRY(bring_to_host(storage));
    if (!device) return TP_OK;
    leave_device(storage);
    char *memory = device->alloc(storage->size_bytes ? storage->size_bytes : 1);
    if (!memory) return device->status();
    tp_status status =
        storage->size_bytes ? device->upload(memory, storage->data, storage->size_bytes) : TP_OK;
    if (status != TP_OK) {
        device->release(memory);
        return status;
    }
    storage->device = device;
    storage->device_data = memory;
    return TP_OK;
}

void tp_storage_written(tp_storage *storage, const tp_device *device)
{
    if (!device) leave_device(storage);
    storage->host_stale = device != NULL;
}

tp_storage *tp_storage_retain(tp_storage *storage)
{
    __atomic_add_fetch(&storage->refcount, 1, __ATOMIC_RELAXED);
    return storage;
}

void tp_storage_release(tp_storage *storage)
{
    if (!storage || __atomic_sub_fetch(&storage->refcount, 1, __ATOMIC_ACQ_REL) > 0) return;
    tp_context *context = storage->context;
    leave_device(storage);
    if (storage->block_bytes)
        tp_context_give_block(context, storage->data, storage->block_bytes);
    else if (storage->release)
        storage->release(storage->release_user, storage->data);
    tp_context_free(context, storage, sizeof *storage);
    tp_context_release(context);
}
