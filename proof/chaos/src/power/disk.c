/* Writes down, before it happens, everything that a process does to the files in one folder, so that a
   power loss can be played afterwards: journal.rs says what the records mean, cut.rs what is lost.

   DELAYQ_CHAOS_DISK names a folder of four: `store`, whose files are watched; `journal`, which gets the
   records; `graves`, which gets a second name of each file that is unlinked or replaced; `page`, which all
   processes share (a lock, and how long a sync takes). Syncs of watched files are played, too: they take
   that long and never reach the real disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PIECE 65536
#define FILES 65536 /* a power of two, far more than are ever opened */

enum kind { WRITE = 1, LENGTH, CREATE, BORN, RENAME, UNLINK, SYNC, SYNCED, MAPPED, STREAM, ODD };

struct record {
    uint64_t kind, file, offset, length, before, token;
    uint64_t first, second; /* so many bytes follow: the old bytes, or one or two paths */
};

struct page {
    atomic_uint lock;
    uint32_t sync_us;
    atomic_ullong tokens;
};

static struct page *page;
static int journal = -1;
static char root[PATH_MAX], store[PATH_MAX];
static dev_t device;
static atomic_ullong files[FILES];
static atomic_int has_mapping;

__attribute__((constructor)) static void begin(void) {
    char path[PATH_MAX + 16];
    const char *name = getenv("DELAYQ_CHAOS_DISK");
    struct stat folder;
    if (!name || !realpath(name, root)) return;
    snprintf(path, sizeof path, "%s/store", root);
    if (!realpath(path, store) || stat(store, &folder)) return;
    device = folder.st_dev;
    snprintf(path, sizeof path, "%s/journal", root);
    journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    snprintf(path, sizeof path, "%s/page", root);
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    void *map = (void *)syscall(SYS_mmap, NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (journal >= 0 && map != MAP_FAILED) page = map;
}

/* Held while a record and what it tells of are done: then what has a record before a sync begins has
   happened before it. Whoever is killed while holding it is killed with everybody else. */
static void lock(void) {
    while (atomic_exchange_explicit(&page->lock, 1, memory_order_acquire)) sched_yield();
}

static void unlock(void) {
    int error = errno;
    atomic_store_explicit(&page->lock, 0, memory_order_release);
    errno = error;
}

/* An unrecorded change would make the model wrong: then rather none at all. */
static void put(const void *bytes, size_t count) {
    if (syscall(SYS_write, journal, bytes, count) != (long)count) abort();
}

static void note(struct record record, const char *first, const char *second) {
    if (first) record.first = strlen(first);
    if (second) record.second = strlen(second);
    put(&record, sizeof record);
    if (record.first && first) put(first, record.first);
    if (record.second && second) put(second, record.second);
}

static void odd(const char *call) {
    if (!page) return;
    lock();
    note((struct record){.kind = ODD}, call, NULL);
    unlock();
}

/* The set of watched files, by inode. */
static unsigned place_of(uint64_t inode) {
    unsigned place = inode * 0x9E3779B97F4A7C15u >> 48;
    for (;; place++) {
        uint64_t there = atomic_load(&files[place % FILES]);
        if (there == 0 || there == inode) return place % FILES;
    }
}

static void watch(int file) {
    struct stat now;
    if (file < 0 || fstat(file, &now) || now.st_dev != device) return;
    unsigned long long nobody = 0;
    while (!atomic_compare_exchange_strong(&files[place_of(now.st_ino)], &nobody, now.st_ino)) {
        if (nobody == now.st_ino) return;
        nobody = 0;
    }
}

static int is_watched(int file, struct stat *now) {
    int error = errno;
    int is = page && file >= 0 && fstat(file, now) == 0 && now->st_dev == device
        && (S_ISREG(now->st_mode) || S_ISDIR(now->st_mode))
        && atomic_load(&files[place_of(now->st_ino)]) == now->st_ino;
    errno = error;
    return is;
}

/* The whole path of a name, if it is in the watched folder. */
static int is_inside(int at, const char *name, char *path) {
    char whole[2 * PATH_MAX + 2], link[64];
    int error = errno;
    size_t length = strlen(store);
    if (!page || !name || !*name) return 0;
    if (*name != '/') {
        if (at == AT_FDCWD) strcpy(link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t count = readlink(link, whole, PATH_MAX);
        if (count < 0) return errno = error, 0;
        snprintf(whole + count, PATH_MAX + 2, "/%s", name);
    } else {
        snprintf(whole, sizeof whole, "%s", name);
    }
    if (!realpath(whole, path)) {
        char *base = strrchr(whole, '/');
        *base = 0;
        if (!realpath(*whole ? whole : "/", path)) return errno = error, 0;
        strncat(path, "/", PATH_MAX - strlen(path) - 1);
        strncat(path, base + 1, PATH_MAX - strlen(path) - 1);
    }
    errno = error;
    return strncmp(path, store, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static uint64_t folder_of(const char *path) {
    char folder[PATH_MAX];
    struct stat now;
    snprintf(folder, sizeof folder, "%s", path);
    char *base = strrchr(folder, '/');
    if (base) *base = 0;
    return stat(folder, &now) ? 0 : now.st_ino;
}

/* The bytes of a file from `offset` to its end, `count` at most, behind their record. */
static void note_bytes(struct record record, int file, size_t count) {
    char piece[PIECE];
    size_t left = record.offset < record.before ? record.before - record.offset : 0;
    if (left > count) left = count;
    record.first = left;
    put(&record, sizeof record);
    for (off_t at = record.offset; left;) {
        long got = syscall(SYS_pread64, file, piece, left < PIECE ? left : PIECE, at);
        if (got <= 0) abort();
        put(piece, got);
        left -= got;
        at += got;
    }
}

/* A descriptor to read with. Another one than `file` only where that cannot be read: to close any one drops
   the locks that this process has on the file, and SQLite opens its own to read and write. */
static int reader(int file) {
    char name[64];
    if ((fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR) return file;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int own = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
    if (own < 0) abort();
    return own;
}

static void note_length(int file, off_t length) {
    struct stat now;
    int own = reader(file);
    if (fstat(own, &now)) abort();
    note_bytes((struct record){.kind = LENGTH, .file = now.st_ino, .offset = length,
                   .length = length, .before = now.st_size}, own, SIZE_MAX);
    if (own != file) syscall(SYS_close, own);
}

static void note_length_at(const char *path, off_t length) {
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) abort();
    note_length(file, length);
    syscall(SYS_close, file);
}

static int open_inside(const char *path, int flags, mode_t mode) {
    struct stat now;
    lock();
    int exists = stat(path, &now) == 0;
    int is_new = !exists && (flags & O_CREAT);
    if (is_new) note((struct record){.kind = CREATE, .file = folder_of(path)}, path, NULL);
    if (exists && (flags & O_TRUNC) && S_ISREG(now.st_mode) && now.st_size) note_length_at(path, 0);
    int file = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    watch(file);
    if (is_new && file >= 0 && fstat(file, &now) == 0) note((struct record){.kind = BORN, .file = now.st_ino}, NULL, NULL);
    unlock();
    return file;
}

static int open_any(int at, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (is_inside(at, name, path)) return open_inside(path, flags, mode);
    return syscall(SYS_openat, at, name, flags, mode);
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, last); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE(flags) return open_any(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE(flags) return open_any(at, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return creat(name, mode); }

/* Streams write past this library. They only ever append, so that their length tells what they wrote. */
static FILE *stream(const char *symbol, const char *name, const char *how) {
    char path[PATH_MAX];
    FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, symbol);
    if (!is_inside(AT_FDCWD, name, path) || (*how == 'r' && !strchr(how, '+'))) return real(name, how);
    if (strchr(how, '+')) odd("fopen to read and write");
    int file = open_inside(path, O_WRONLY | O_CREAT | (*how == 'a' ? O_APPEND : O_TRUNC), 0666);
    struct stat now;
    if (file < 0 || fstat(file, &now)) return NULL;
    lock();
    note((struct record){.kind = STREAM, .file = now.st_ino, .before = now.st_size}, NULL, NULL);
    unlock();
    return fdopen(file, how);
}

FILE *fopen(const char *name, const char *how) { return stream("fopen", name, how); }
FILE *fopen64(const char *name, const char *how) { return stream("fopen64", name, how); }

/* `at` < 0: where the descriptor stands. */
static ssize_t write_any(int file, const struct iovec *parts, int count, off_t at) {
    struct stat now;
    ssize_t result;
    int is_here = is_watched(file, &now) && S_ISREG(now.st_mode);
    uint64_t token = 0;
    int flags = 0;
    if (is_here) {
        size_t length = 0;
        for (int i = 0; i < count; i++) length += parts[i].iov_len;
        flags = fcntl(file, F_GETFL);
        lock();
        fstat(file, &now);
        off_t from = at >= 0 ? at : (flags & O_APPEND) ? now.st_size : lseek(file, 0, SEEK_CUR);
        token = atomic_fetch_add(&page->tokens, 1) + 1;
        int own = from < now.st_size ? reader(file) : file;
        note_bytes((struct record){.kind = WRITE, .file = now.st_ino, .offset = from, .length = length,
                       .before = now.st_size, .token = token}, own, length);
        if (own != file) syscall(SYS_close, own);
    }
    if (at >= 0) result = syscall(SYS_pwritev, file, parts, count, at, 0);
    else result = syscall(SYS_writev, file, parts, count);
    if (is_here) {
        if (result > 0 && (flags & O_DSYNC)) note((struct record){.kind = SYNCED, .token = token}, NULL, NULL);
        unlock();
    }
    return result;
}

ssize_t write(int file, const void *bytes, size_t count) {
    return write_any(file, &(struct iovec){(void *)bytes, count}, 1, -1);
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    return write_any(file, &(struct iovec){(void *)bytes, count}, 1, at);
}
ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) { return pwrite64(file, bytes, count, at); }
ssize_t writev(int file, const struct iovec *parts, int count) { return write_any(file, parts, count, -1); }
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) { return write_any(file, parts, count, at); }
ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) { return write_any(file, parts, count, at); }

int ftruncate64(int file, off64_t length) {
    struct stat now;
    if (!is_watched(file, &now)) return syscall(SYS_ftruncate, file, length);
    lock();
    note_length(file, length);
    int result = syscall(SYS_ftruncate, file, length);
    unlock();
    return result;
}
int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

int truncate64(const char *name, off64_t length) {
    char path[PATH_MAX];
    if (!is_inside(AT_FDCWD, name, path)) return syscall(SYS_truncate, name, length);
    lock();
    note_length_at(path, length);
    int result = syscall(SYS_truncate, path, length);
    unlock();
    return result;
}
int truncate(const char *name, off_t length) { return truncate64(name, length); }

/* A second name in `graves`, or 0 when there is nothing to keep. */
static uint64_t bury(const char *path) {
    char grave[PATH_MAX + 32];
    uint64_t number = atomic_fetch_add(&page->tokens, 1) + 1;
    snprintf(grave, sizeof grave, "%s/graves/%llu", root, (unsigned long long)number);
    return syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, grave, 0) ? 0 : number;
}

static int rename_any(int at, const char *name, int to_at, const char *to, unsigned flags) {
    char from[PATH_MAX], target[PATH_MAX];
    struct stat now;
    if (!is_inside(at, name, from) || !is_inside(to_at, to, target)) return syscall(SYS_renameat2, at, name, to_at, to, flags);
    /* RENAME_NOREPLACE renames or does nothing. */
    if (flags & ~1u) odd("renameat2 with flags");
    lock();
    uint64_t moved = stat(from, &now) ? 0 : now.st_ino;
    note((struct record){.kind = RENAME, .file = folder_of(target), .offset = moved, .token = bury(target)}, from, target);
    int result = syscall(SYS_renameat2, at, name, to_at, to, flags);
    unlock();
    return result;
}
int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int at, const char *from, int to_at, const char *to) { return rename_any(at, from, to_at, to, 0); }
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) { return rename_any(at, from, to_at, to, flags); }

int unlinkat(int at, const char *name, int flags) {
    char path[PATH_MAX];
    if (!is_inside(at, name, path)) return syscall(SYS_unlinkat, at, name, flags);
    if (flags & AT_REMOVEDIR) odd("rmdir");
    lock();
    uint64_t grave = bury(path);
    if (grave) note((struct record){.kind = UNLINK, .file = folder_of(path), .token = grave}, path, NULL);
    int result = syscall(SYS_unlinkat, at, name, flags);
    unlock();
    return result;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdir(const char *name, mode_t mode) {
    char path[PATH_MAX];
    struct stat now;
    if (!is_inside(AT_FDCWD, name, path)) return syscall(SYS_mkdirat, AT_FDCWD, name, mode);
    lock();
    if (stat(path, &now)) note((struct record){.kind = CREATE, .file = folder_of(path)}, path, NULL);
    int result = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0 && stat(path, &now) == 0) note((struct record){.kind = BORN, .file = now.st_ino}, NULL, NULL);
    unlock();
    return result;
}

static int sync_any(int file, long call) {
    struct stat now;
    if (!is_watched(file, &now)) return syscall(call, file);
    lock();
    fstat(file, &now);
    uint64_t token = atomic_fetch_add(&page->tokens, 1) + 1;
    note((struct record){.kind = SYNC, .file = now.st_ino, .length = now.st_size, .token = token}, NULL, NULL);
    unlock();
    struct timespec wait = {page->sync_us / 1000000, page->sync_us % 1000000 * 1000L};
    while (syscall(SYS_nanosleep, &wait, &wait)) {}
    lock();
    note((struct record){.kind = SYNCED, .token = token}, NULL, NULL);
    unlock();
    return 0;
}
int fsync(int file) { return sync_any(file, SYS_fsync); }
int fdatasync(int file) { return sync_any(file, SYS_fdatasync); }

void *mmap64(void *at, size_t length, int rights, int flags, int file, off64_t offset) {
    struct stat now;
    if (file >= 0 && (flags & MAP_SHARED) && (rights & PROT_WRITE) && is_watched(file, &now)) {
        lock();
        atomic_store(&has_mapping, 1);
        note((struct record){.kind = MAPPED, .file = now.st_ino}, NULL, NULL);
        unlock();
    }
    return (void *)syscall(SYS_mmap, at, length, rights, flags, file, offset);
}
void *mmap(void *at, size_t length, int rights, int flags, int file, off_t offset) { return mmap64(at, length, rights, flags, file, offset); }

int msync(void *at, size_t length, int flags) {
    if (atomic_load(&has_mapping)) odd("msync");
    return syscall(SYS_msync, at, length, flags);
}

/* What nobody here uses, and the model does not know: a run that meets it is told so. */
int fallocate64(int file, int mode, off64_t offset, off64_t length) {
    struct stat now;
    if (is_watched(file, &now)) odd("fallocate");
    return syscall(SYS_fallocate, file, mode, offset, length);
}
int fallocate(int file, int mode, off_t offset, off_t length) { return fallocate64(file, mode, offset, length); }
int posix_fallocate64(int file, off64_t offset, off64_t length) { return fallocate64(file, 0, offset, length) ? errno : 0; }
int posix_fallocate(int file, off_t offset, off_t length) { return posix_fallocate64(file, offset, length); }

int link(const char *from, const char *to) {
    char path[PATH_MAX];
    if (is_inside(AT_FDCWD, to, path)) odd("link");
    return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
