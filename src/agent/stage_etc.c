/* SPDX-License-Identifier: MIT */
/*
 * stage_etc.c: the files below /etc that are the sandbox's own: who is who, its name, its
 * resolver. They replace what an image has.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/stage.h"

static const char passwd[] = "root:x:0:0:root:/:/bin/sh\n"
			     "user:x:1000:1000:user:/home/user:/bin/sh\n"
			     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";
/* No daemon of the host answers inside: files and DNS only. */
static const char nsswitch[] = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			       "networks: files\nprotocols: files\nservices: files\n"
			       "ethers: files\nrpc: files\n";

static int put(int etc, const char *name, const char *text, size_t n)
{
	int fd, r;

	unlinkat(etc, name, 0);
	fd = openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	r = fd < 0 ? -1 : write_all(fd, text, n);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return stage_no(NULL, errno, "cannot write /etc/%s of the sandbox: %m", name);
	return 0;
}

int etc_make(int root)
{
	const char *name = stage.o.hostname;
	char hosts[512], host[80];
	int etc = open_beneath(root, "etc", O_PATH | O_DIRECTORY, 0), r;
	size_t n, m;

	if (etc < 0)
		return stage_no(NULL, errno, "cannot open /etc of the sandbox: %m");
	n = fmt(hosts, sizeof(hosts),
		"127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost ip6-loopback\n",
		name);
	m = fmt(host, sizeof(host), "%s\n", name);
	r = put(etc, "passwd", passwd, sizeof(passwd) - 1) < 0 ||
			    put(etc, "group", group, sizeof(group) - 1) < 0 ||
			    put(etc, "nsswitch.conf", nsswitch, sizeof(nsswitch) - 1) < 0 ||
			    put(etc, "hosts", hosts, n) < 0 || put(etc, "hostname", host, m) < 0 ||
			    put(etc, "resolv.conf", stage.plan.resolv, stage.plan.resolv_len) < 0
		    ? -1
		    : 0;
	close(etc);
	return r;
}
