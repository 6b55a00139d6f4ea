/* For a box alone: claims a limit of 65,536 open files where the kernel has a lower one that cannot be raised, because
   OpenSearch refuses to start below that. Opening more files than the kernel allows fails as it did before. */
#define _GNU_SOURCE
#include <sys/resource.h>

enum { CLAIMED = 65536 };

int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit) {
    int result = prlimit64(0, resource, 0, limit);
    if (result == 0 && resource == RLIMIT_NOFILE && limit->rlim_max < CLAIMED) {
        limit->rlim_cur = CLAIMED;
        limit->rlim_max = CLAIMED;
    }
    return result;
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *limit) {
    return getrlimit64(resource, (struct rlimit64 *)limit);
}
