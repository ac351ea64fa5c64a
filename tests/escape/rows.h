/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_ROWS_H
#define BERTH_TESTS_ROWS_H
/*
 * rows.h: the attempts to get out of a sandbox, the one list of them. The program `attempts` has a
 * function attempt_NAME() for each INSIDE row, the drivers (process.c, files.c, limits.c) a test NAME
 * for each OUTSIDE row, and docs/escape.md is made from all of them.
 *
 * X(name, flags, what is tried, why it must fail, what is expected)
 *
 * Flags: TEETH: without the wall (isolation=none, root) the same attempt gets through, and the
 * suite shows that it does, so that it cannot hold for want of trying. NO_NET: only where the
 * sandbox has no network.
 */
#define TEETH  1u
#define NO_NET 2u

/* clang-format off */
#define ROWS_LOOK(X) \
X(fds, 0, "finds file descriptors besides 0, 1, 2", \
  "the last step before execve closes every other one", "exactly 0, 1, 2, and they are pipes, a terminal or /dev/null") \
X(bait_files, TEETH, "opens files of the host by their absolute path", \
  "nothing of the host but its system folders is mounted", "no such file") \
X(state_folder, TEETH, "opens berth's state folder, other sandboxes in it and their homes", \
  "the state folder is mounted nowhere", "no such file") \
X(host_homes, TEETH, "lists /root, /home and what is in it", \
  "/home has the sandbox's own home only; /root is not there", "nothing but /home/user") \
X(host_shadow, TEETH, "opens /etc/shadow, /etc/gshadow, /etc/sudoers and the ssh host keys", \
  "/etc holds an allow list, and host uid 0 does not exist inside", "no such file, or not permitted") \
X(host_var_and_run, TEETH, "looks for anything in /var, /run, /srv, /mnt, /media, /boot, /opt", \
  "none of it is mounted; /run has only what berth puts there", "empty or absent") \
X(needle_walk, TEETH, "reads every file of the whole tree below / for the bait's secret, with open \
  directories of every process as further starting points", \
  "no path leads to what belongs to another", "the secret is nowhere") \
X(own_record, TEETH, "lists and opens the records of its own sandbox", \
  "the records' folder is detached from the worker's mount namespace and belongs to another uid", \
  "no such file, or not permitted") \
X(own_record_written, TEETH, "makes, renames and removes files among the records", \
  "the same", "no such file, or not permitted") \
X(init_socket, TEETH, "connects to init's control socket", \
  "the socket lies among the records", "no such file, or not permitted") \
X(agent_binary, 0, "opens the agent for writing: /run/berth-agent, /proc/1/exe, the state folder's", \
  "init unmounts it first thing; /proc/1 is another uid's and not dumpable", "no such file, or not permitted") \
X(agent_binary_read, 0, "reads the agent through /proc/1/exe or /run/berth-agent", \
  "the same", "no such file, or not permitted") \
X(proc_root, 0, "goes through /proc/N/root of every process but its own", \
  "a magic link needs ptrace access, which needs the same uid and a dumpable process", "not permitted") \
X(proc_cwd, 0, "goes through /proc/N/cwd of every process but its own", "the same", "not permitted") \
X(proc_fd, 0, "lists and opens /proc/N/fd of every process but its own", "the same", "not permitted") \
X(proc_map_files, 0, "lists /proc/N/map_files and reads /proc/N/maps of every process but its own", "the same", "not permitted") \
X(proc_environ, TEETH, "reads /proc/N/environ of every process for the bait's secret, and of the supervisor for anything", \
  "own PID namespace per execution; another uid than the supervisor's", "not permitted, or not there") \
X(proc_mem, 0, "opens /proc/N/mem of every process but its own, for reading and writing", "the same", "not permitted") \
X(proc_1_write, 0, "writes oom_score_adj, coredump_filter, comm, timerslack_ns, uid_map of PID 1", \
  "they belong to another uid", "not permitted") \
X(other_processes, 0, "finds processes of the host, of other sandboxes or of other executions in /proc and by kill(pid, 0)", \
  "an execution sees its own PID namespace", "none is there") \
X(devices, 0, "looks for devices that are no part of the usual few", \
  "/dev is a tmpfs with an allow list", "null zero full random urandom tty ptmx pts shm and links") \
X(sysfs, TEETH, "looks for /sys and what is in it", "sysfs is not mounted", "absent or empty") \
X(cgroups, TEETH, "finds a cgroup file system, or its own group's path on the host", \
  "no cgroupfs is mounted, and the worker has a cgroup namespace of its own", "none; /proc/self/cgroup says /")

#define ROWS_MOUNT(X) \
X(mount_fs, 0, "mounts tmpfs, proc, sysfs, cgroup, cgroup2, overlay, devtmpfs, bpf, securityfs, debugfs, fuse", \
  "seccomp refuses mount(2), and no capability is left", "EPERM or ENOSYS") \
X(mount_bind, 0, "binds / and /usr elsewhere", "the same", "EPERM or ENOSYS") \
X(remount_rw, 0, "remounts /, /usr, /proc/sys read-write", "the same, and the mounts are locked", "EPERM or ENOSYS") \
X(umount_all, 0, "unmounts everything in /proc/self/mountinfo", "the same", "EPERM or ENOSYS") \
X(mount_new_api, 0, "fsopen, fsmount, fspick, open_tree, move_mount, mount_setattr", "the same", "EPERM or ENOSYS") \
X(pivot_root, 0, "pivots the root", "the same", "EPERM or ENOSYS") \
X(chroot, 0, "changes the root (and would climb out by an open directory)", "the same", "EPERM or ENOSYS") \
X(read_only_system, TEETH, "creates, changes and removes files in /, /usr, /bin, /lib, /etc", \
  "the host's system is mounted read-only and belongs to no uid of the sandbox", "EROFS or EACCES") \
X(unshare_each, 0, "unshares each kind of namespace, alone and with a user namespace", \
  "seccomp refuses unshare(2); no further user namespaces", "EPERM or ENOSYS") \
X(setns_each, 0, "enters each namespace of its own and of every process that it sees", \
  "seccomp refuses setns(2)", "EPERM, EACCES or ENOSYS") \
X(clone_newuser, 0, "clones into a new user namespace, and into each other kind", \
  "seccomp looks at the flags of clone(2)", "EPERM or ENOSYS") \
X(clone3_newuser, 0, "the same by clone3, whose flags a filter cannot see", "clone3 does not exist inside", "ENOSYS") \
X(open_by_handle, 0, "opens files by handles made or guessed", "needs a capability of the host's user namespace", "EPERM or ENOSYS") \
X(mknod_device, 0, "makes block and character devices (mem, kmsg, disks, the root file system's)", "needs CAP_MKNOD of the host", "EPERM") \
X(overlay_whiteout, 0, "makes an overlay whiteout and trusted.overlay attributes", \
  "trusted attributes are the host root's", "EPERM or ENOTSUP")

#define ROWS_KERNEL(X) \
X(ptrace_supervisor, 0, "attaches to and seizes PID 1, its parent and every other process", \
  "seccomp, another uid, not dumpable", "EPERM, ENOSYS or ESRCH") \
X(ptrace_traceme, 0, "lets itself be traced by its parent, the supervisor's side", "seccomp", "EPERM or ENOSYS") \
X(process_vm, 0, "reads and writes the memory of PID 1 by process_vm_readv, process_vm_writev, process_madvise", \
  "the same as ptrace", "EPERM, ENOSYS or ESRCH") \
X(pidfd_getfd, 0, "takes fds of PID 1 by pidfd_getfd", "the same as ptrace", "EPERM or ENOSYS") \
X(kcmp, 0, "compares its fds with those of PID 1", "the same as ptrace", "EPERM or ENOSYS") \
X(keyctl, 0, "keyctl, add_key, request_key", "seccomp: keyrings are not divided by namespaces", "EPERM or ENOSYS") \
X(bpf, 0, "loads a program, makes a map", "seccomp", "EPERM or ENOSYS") \
X(io_uring, 0, "sets up a ring", "seccomp: a ring would carry calls past the filter", "EPERM or ENOSYS") \
X(userfaultfd, 0, "makes a userfaultfd", "seccomp", "EPERM or ENOSYS") \
X(perf_event, 0, "opens performance events of itself and of the machine", "seccomp", "EPERM, EACCES or ENOSYS") \
X(sockets_raw, 0, "raw, packet, netlink audit, vsock, AF_ALG, key, bluetooth, tipc, xdp, nfc, can, rds sockets", \
  "seccomp lets unix, inet, inet6 and netlink route pass; raw needs a capability", "EPERM, EACCES, EAFNOSUPPORT or ENOSYS") \
X(kexec, 0, "kexec_load, kexec_file_load", "seccomp, and a capability of the host", "EPERM or ENOSYS") \
X(modules, 0, "init_module, finit_module, delete_module", "the same", "EPERM or ENOSYS") \
X(reboot, 0, "reboot (in its harmless form)", "the same", "EPERM or ENOSYS") \
X(clocks, 0, "clock_settime, settimeofday, adjtimex, clock_adjtime", "the same; the clock is everyone's", "EPERM or ENOSYS") \
X(swap, 0, "swapon, swapoff", "the same", "EPERM or ENOSYS") \
X(syslog, 0, "reads and clears the kernel's log", "the same", "EPERM or ENOSYS") \
X(io_ports, 0, "iopl, ioperm", "the same", "EPERM or ENOSYS") \
X(fanotify, 0, "fanotify_init on the whole file system", "seccomp, and a capability", "EPERM or ENOSYS") \
X(quotas, 0, "quotactl, quotactl_fd", "seccomp", "EPERM or ENOSYS") \
X(accounting, 0, "acct, lookup_dcookie, nfsservctl, uselib, vhangup, _sysctl", "seccomp", "EPERM or ENOSYS") \
X(hostname, 0, "sethostname, setdomainname", "needs a capability of the sandbox, which is dropped", "EPERM or ENOSYS") \
X(numa, 0, "move_pages and migrate_pages of PID 1", "another uid, seccomp", "EPERM, ENOSYS or ESRCH") \
X(scheduling, 0, "real-time classes, negative nice values, real-time I/O, the scheduler of PID 1", \
  "needs CAP_SYS_NICE", "EPERM, EACCES or ENOSYS") \
X(rlimits, 0, "raises its hard limits, changes those of PID 1", "needs CAP_SYS_RESOURCE; another uid", "EPERM or ENOSYS") \
X(core_dump, 0, "crashes, so that the host's core_pattern, which may be a program, is handed its image", \
  "RLIMIT_CORE is 1: the one value with which the kernel starts no such program", "no core file, a limit that cannot be raised") \
X(compat_calls, 0, "the same calls by int 0x80 and with the x32 bit", \
  "the filter names its architecture and refuses every other", "ENOSYS, EPERM, or a kill") \
X(unknown_calls, 0, "calls with numbers that no kernel knows", "what the list does not name does not exist", "ENOSYS")

#define ROWS_PRIVILEGE(X) \
X(status_bits, TEETH, "finds a capability in any of its sets, no_new_privs or the filter missing", \
  "all sets are emptied, no_new_privs is set, the filter is loaded last", "all zero, 1, 2") \
X(become_uid, TEETH, "setuid, setreuid, setresuid, setfsuid to 0, to init's and to the host's uids; the same with gids", \
  "needs CAP_SETUID, and other uids do not exist inside", "EPERM or EINVAL") \
X(groups, TEETH, "setgroups; supplementary groups that were left", "setgroups(0) happened before; needs CAP_SETGID", "EPERM; none") \
X(capset, 0, "capset, ambient capabilities, leaving the bounding set as it is", "no permitted set to take from", "EPERM, or all still zero") \
X(setuid_files, 0, "runs each setuid and setgid file of the system (su, mount, passwd, ping, newuidmap …) with LD_PRELOAD set", \
  "mounts are nosuid, no_new_privs is set, and their owner is not mapped", "its uids, gids and capabilities stay what they were") \
X(file_capabilities, 0, "gives a file of its own capabilities or another owner", "needs CAP_SETFCAP, CAP_CHOWN", "EPERM") \
X(own_setuid, 0, "runs a setuid copy of itself", "nosuid, no_new_privs", "the same uids") \
X(sysctls, TEETH, "opens every file of /proc/sys for writing", \
  "they belong to the host's root or to the sandbox's init, never to the worker", "EACCES, EROFS or EPERM") \
X(proc_files, TEETH, "opens every other file of /proc that is no process's for writing (sysrq-trigger, irq, bus, fs, mtrr …)", "the same", "EACCES, EROFS or EPERM") \
X(kernel_handlers, TEETH, "sets core_pattern, modprobe, hotplug, poweroff_cmd, registers in binfmt_misc", "the same", "EACCES, EROFS, EPERM or absent")

#define ROWS_SIGNAL(X) \
X(signals_pid_1, 0, "sends all 64 signals to PID 1, by kill, tgkill, sigqueue and pidfd_send_signal", \
  "PID 1 of the namespace is the supervisor, for a guest the keeper, of another uid", "EPERM; the execution ends as if nothing had been") \
X(signals_all, 0, "sends all 64 signals to every other process number up to the largest", \
  "what is not in the PID namespace has no number", "EPERM or ESRCH") \
X(sigio, 0, "makes PID 1 the owner of a pipe that raises KILL, STOP and SEGV", \
  "the kernel asks for the sender's right when the signal is raised", "nothing reaches it") \
X(reaper, 0, "becomes a subreaper, makes itself its own session, ends its parent's parent", \
  "what it started is still in its PID namespace", "nothing changes for the outside") \
X(tiocsti, 0, "finds the terminal of a guest; types into every terminal that it can open by TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS", \
  "the caller's terminal is not inside: ptys are made inside; an execution has a devpts of its own", "no fd of it; the calls fail")

#define ROWS_NET(X) \
X(abstract_socket, NO_NET | TEETH, "connects to an abstract socket of the host", "abstract names belong to the network namespace", "ECONNREFUSED") \
X(path_socket, TEETH, "connects to a path socket of the host, and to docker's, dbus', systemd's", "no path leads to it", "no such file") \
X(only_lo, NO_NET, "finds interfaces besides lo, and routes", "net=none is an own network namespace", "lo, and no route") \
X(routes, 0, "adds a route, an address and a link, removes routes, by netlink", "needs CAP_NET_ADMIN", "EPERM") \
X(host_ports, NO_NET | TEETH, "connects to a port of the host on 127.0.0.1 and on each of its addresses", "the same", "ENETUNREACH or ECONNREFUSED") \
X(low_ports, 0, "net_admin's socket options (SO_MARK, SO_RCVBUFFORCE), transparent sockets", "needs CAP_NET_ADMIN", "EPERM")

#define ROWS_INSIDE(X) ROWS_LOOK(X) ROWS_MOUNT(X) ROWS_KERNEL(X) ROWS_PRIVILEGE(X) ROWS_SIGNAL(X) ROWS_NET(X)

#define ROWS_PROCESS(X) \
X(own_output, 0, "truncates, seeks in, writes into and removes its recorded output by /dev/stdout and /proc/self/fd/1", \
  "stdout is a pipe; the file is the supervisor's", "every byte is there, in its order") \
X(fds_by_every_road, 0, "counts the fds of run, deploy, exec, exec with a terminal and an install command", \
  "there is one launch path, and its last step closes them", "0, 1, 2") \
X(callers_directory, 0, "is given a directory, a file and a socket of the host as stdin and walks from it", \
  "only pipes that berth made cross the wall", "stdin is a pipe") \
X(workdirs, 0, "has links to /proc/self/fd/N, /proc/self/cwd, /proc/1/root and the like used as the working directory of exec, of sessions and of executions", \
  "working directories are opened with the worker's rights and without magic links; no directory fd of init's leads out", "refused, or a directory that the worker could enter itself") \
X(two_at_once, 0, "one execution looks for another's environment, input, view and processes in the same sandbox", \
  "own PID namespace, own view; inputs and records are out of reach", "the secrets are nowhere") \
X(guest_and_execution, 0, "a guest of exec looks for an execution's, and the execution for the guest's", \
  "guests have a PID namespace of their own", "the secrets are nowhere") \
X(terminal, 0, "all terminal attempts again, on a terminal of exec -t", \
  "the terminal is made inside", "nothing is typed into the caller's") \
X(init_and_sysctls, 0, "init's own rights, taken by the host's root, used on every host-wide sysctl", \
  "init's user namespace owns none of them", "only those of its own network, IPC, UTS and user namespaces open") \
X(host_uids, 0, "finds a process of a sandbox with the host uid 0 or a person's", \
  "every sandbox has a range of its own", "none; init and workers differ") \
X(nothing_left, 0, "leaves daemons, sessions, traps, stopped processes, links to the host and closed folders behind, then the sandbox is destroyed", \
  "the PID namespace ends, and links are removed, not followed", "no process, mount, group, socket or file is left, and nothing else is gone")

#define ROWS_FILES(X) \
X(copy_out_race, 0, "swaps a directory with a link to the records while it is copied out", \
  "files are opened with the worker's rights and without magic links", "no byte of a record comes out") \
X(copy_in_race, 0, "swaps a directory with links to records and to the system while a file is copied in", \
  "the same", "nothing outside the worker's reach is written") \
X(copy_names, 0, "copies to and from `..`, absolute paths, ID:../.., and links to them", \
  "the same; below an execution's view paths may not leave it", "refused, or with the worker's own rights") \
X(copy_out_links, 0, "has a link to a file or folder of the host copied out, then a file or directory of its name", \
  "links are never followed on the side that is written", "the host's file is untouched") \
X(input_file, 0, "an input file whose path leads through links of the artifact to records and to the system", \
  "inputs are put below the view, links are not followed", "refused; nothing is written") \
X(evil_artifact, 0, "an artifact with absolute links, links upwards, names with dots, setuid bits", \
  "links are carried as they are and never written through, setuid bits are dropped", "it runs, and nothing outside changed") \
X(view_race, 0, "swaps directories of its view with links while files are copied into the execution", \
  "the same as copy_in_race", "nothing outside the view is written") \
X(store_poisoned, 0, "changes the artifact that it runs from, then it is deployed again", \
  "an execution has a view of its own", "the next one sees the artifact as it was sent")

#define ROWS_LIMITS(X) \
X(fork_bomb, 0, "forks without end under pids=", "the group's limit", "it is counted, and all of it is ended") \
X(memory_bomb, 0, "allocates without end under memory=", "the group's limit", "resource_exhausted, memory") \
X(tmp_filler, 0, "fills /tmp", "it is a tmpfs of a given size", "ENOSPC") \
X(inode_filler, 0, "fills /tmp with empty files", "the same; its inodes are bounded", "ENOSPC") \
X(shm_filler, 0, "fills /dev and /dev/shm", "they are bounded, or as large as the memory that the group may have", "ENOSPC") \
X(home_filler, 0, "fills its home under disk=", "a project quota, where the file system has them", "ENOSPC, or a clear error when it is asked for") \
X(log_bomb, 0, "writes 100 MB to stdout and stderr under an output limit", "head and tail are kept, the rest is counted", "the files stay within the limit")

#define ROWS_OUTSIDE(X) ROWS_PROCESS(X) ROWS_FILES(X) ROWS_LIMITS(X)
/* clang-format on */

#endif
