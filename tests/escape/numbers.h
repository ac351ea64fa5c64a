/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_NUMBERS_H
#define BERTH_TESTS_NUMBERS_H
/*
 * numbers.h: system calls that are newer than a C library's headers may be; the numbers are the
 * same on every architecture.
 */
#define NR_io_uring_setup    425
#define NR_io_uring_enter    426
#define NR_io_uring_register 427
#define NR_open_tree         428
#define NR_move_mount        429
#define NR_fsopen            430
#define NR_fsconfig          431
#define NR_fsmount           432
#define NR_fspick            433
#define NR_clone3            435
#define NR_pidfd_getfd       438
#define NR_process_madvise   440
#define NR_mount_setattr     442
#define NR_quotactl_fd       443
#define NR_process_mrelease  448

#endif
