/* Storages: refcounted bytes that tensors and plans share. They outlive graphs. */
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

tp_storage *tp_storage_retain(tp_storage *storage)
{
    __atomic_add_fetch(&storage->refcount, 1, __ATOMIC_RELAXED);
    return storage;
}

void tp_storage_release(tp_storage *storage)
{
    if (!storage || __atomic_sub_fetch(&storage->refcount, 1, __ATOMIC_ACQ_REL) > 0) return;
    tp_context *context = storage->context;
    if (storage->block_bytes)
        tp_context_give_block(context, storage->data, storage->block_bytes);
    else if (storage->release)
        storage->release(storage->release_user, storage->data);
    tp_context_free(context, storage, sizeof *storage);
    tp_context_release(context);
}
