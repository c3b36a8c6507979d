/* SPDX-License-Identifier: Apache-2.0
 *
 * For programs that have libgcc in them (-Dstatic=true): where the tables for C++ exceptions are.
 * libgcc asks for them by a function that glibc has since 2.35. This one needs no newer glibc than
 * the rest of the program. libzmq is in C++.
 */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE
#if DLFO_STRUCT_HAS_EH_DBASE
#error "on this architecture libgcc wants another address, too: dlfo_eh_dbase"
#endif

typedef struct {
    ElfW(Addr) pc;
    struct dl_find_object *found;
} Search;

static int
look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    const Search *search = data;
    const ElfW(Phdr) *tables = NULL, *code = NULL;
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_GNU_EH_FRAME)
            tables = header;
        else if (header->p_type == PT_LOAD &&
                 search->pc - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
            code = header;
    }
    if (code == NULL)
        return 0;
    if (tables == NULL)
        return -1;
    char *start = (char *) info->dlpi_addr + code->p_vaddr;
    *search->found = (struct dl_find_object){
        .dlfo_map_start = start,
        .dlfo_map_end = start + code->p_memsz,
        .dlfo_eh_frame = (char *) info->dlpi_addr + tables->p_vaddr,
    };
    return 1;
}

/* 0: found. -1: there are none. For this program only, not for libraries that it loads. */
__attribute__((visibility("hidden"))) int
_dl_find_object(void *address, struct dl_find_object *ret_found)
{
    Search search = {(ElfW(Addr)) address, ret_found};
    return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}

#endif
