/* SPDX-License-Identifier: MIT */
/*
 * A sandbox over an image (--rootfs): under an overlay, and where there can be none.
 */
#include "tap.h"

#include <sys/mount.h>

#include "client.h"
#include "stagebox.h"

static struct stagebox b;
static char out[16384], image[512], sum[2][128];

static void world(void)
{
	TEST_REQUIRE("root", "stage is called as root and as others");
	TEST_REQUIRE("bwrap", "an isolated sandbox");
	TEST_REQUIRE("subids", "an ordinary user's sandbox");
	TEST_REQUIRE("busybox", "an image");
	ASSERT_EQ(box_world(), 0);
}

#define EACH_KIND(k)                                                                \
	for (enum box_kind k = BOX_ROOT; k < BOX_KINDS; k = (enum box_kind)(k + 1)) \
	SUBTEST("%s", box_kinds[k])

static void sh(const char *script, const char *arg)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-euc", script, "sh", image, arg, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	ASSERT_EQ(status, 0);
}

/* An image as a hostile one might be: links where the sandbox wants its own directories and
 * files. */
static void make_image(uid_t owner)
{
	static int n;
	char cwd[300], id[24];

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(image, sizeof(image), "%s/image-%d", cwd, n++);
	snprintf(id, sizeof(id), "%u", owner);
	sh("mkdir -p $1/bin $1/etc $1/var/tmp $1/usr/lib $1/srv; cp /bin/busybox $1/bin/\n"
	   "for p in sh ls cat mkdir touch stat id grep sort head; do ln -s busybox $1/bin/$p; "
	   "done\n"
	   "ln -s usr/lib $1/lib; ln -s /root $1/home; ln -s ../../../../etc $1/run\n"
	   "ln -s /run/systemd/resolve/stub-resolv.conf $1/etc/resolv.conf\n"
	   "ln -s /etc/passwd $1/etc/hosts; echo image >$1/etc/hostname; echo data >$1/etc/mine\n"
	   "chmod 1777 $1/var/tmp; chown -R $2:$2 $1",
	   id);
}

/* Of names, kinds, modes, owners and contents. */
static void image_sum(char *ret)
{
	FILE *f;
	char command[700];

	snprintf(command, sizeof(command),
		 "cd %s && { find . -printf '%%p %%y %%m %%U %%l\\n' | sort; find . -type f | sort "
		 "| "
		 "xargs sha256sum; } | sha256sum",
		 image);
	f = popen(command, "r");
	ASSERT_NOT_NULL(f);
	ASSERT_NOT_NULL(fgets(ret, 128, f));
	pclose(f);
}

static void check_sh(uid_t uid, const char *script, const char *want)
{
	box_sh(&b, uid, script, out, sizeof(out));
	CHECK_STREQ(out, want);
}

static void begin(enum box_kind k, const char *name, const char *const *options)
{
	if (box_start(&b, options) < 0)
		DIAG("%s %s: said %s line %s", box_kinds[k], name, b.said, b.line);
	ASSERT(b.init > 0);
}

static void check_image(void)
{
	check_sh(1000,
		 "cat /etc/mine /etc/hostname; ls -A /home /run; head -n1 /etc/hosts; "
		 "cat /etc/passwd | grep -c user; test -L /etc/resolv.conf || echo file; "
		 "ls /usr; test -e /usr/bin || echo theirs",
		 "data\nstagebox\n/home:\nuser\n\n/run:\nberth\nberth-agent\n127.0.0.1 "
		 "localhost\n1\n"
		 "file\nlib\ntheirs");
	check_sh(1000, "echo x >/home/user/f; echo y >/tmp/f; cat /home/user/f /tmp/f; ls -A /app",
		 "x\ny");
}

TEST_TIMEOUT(overlay, 90)
{
	world();
	TEST_REQUIRE("overlay", "copy on write");
	EACH_KIND(k)
	{
		const char *options[] = {"--net", "none", "--rootfs", image, NULL};

		make_image(k == BOX_ROOT ? 0 : USER_UID);
		image_sum(sum[0]);
		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		begin(k, "overlay", options);
		check_image();
		if (k == BOX_ROOT)
			check_sh(1000, "echo kept >/var/tmp/f && cat /var/tmp/f", "kept");
		ASSERT_EQ(box_kill(&b), 0);
		begin(k, "again", options);
		check_image();
		if (k == BOX_ROOT)
			check_sh(1000, "cat /var/tmp/f", "kept");
		ASSERT_EQ(box_kill(&b), 0);
		image_sum(sum[1]);
		CHECK_STREQ(sum[0], sum[1]);
		ASSERT_EQ(box_erase(&b), 0);
		ASSERT_EQ(access(b.dir, F_OK), -1);
	}
}

/* The upper directory of an overlay cannot lie on an overlay. */
TEST_TIMEOUT(no_overlay, 90)
{
	char cwd[256], options[1200];

	world();
	TEST_REQUIRE("overlay", "a place where there can be none");
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	EACH_KIND(k)
	{
		const char *words[] = {"--net", "none", "--rootfs", image, NULL};

		make_image(k == BOX_ROOT ? 0 : USER_UID);
		image_sum(sum[0]);
		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		snprintf(options, sizeof(options), "%s/t%d", cwd, (int)k);
		ASSERT_EQ(mkdir(options, 0755), 0);
		ASSERT_EQ(mount("t", options, "tmpfs", 0, "mode=755"), 0);
		sh("mkdir $2/low $2/up $2/wk", options);
		snprintf(options, sizeof(options),
			 "lowerdir=%s/t%d/low,upperdir=%s/t%d/up,workdir=%s/t%d/wk", cwd, (int)k,
			 cwd, (int)k, cwd, (int)k);
		ASSERT_EQ(mount("o", b.dir, "overlay", 0, options), 0);
		ASSERT_EQ(chmod(b.dir, 0700), 0);
		if (k != BOX_ROOT)
			ASSERT_EQ(chown(b.dir, USER_UID, USER_UID), 0);
		begin(k, "no overlay", words);
		check_image();
		box_sh(&b, 1000, "echo x >/var/tmp/f", out, sizeof(out));
		ASSERT_CONTAINS(out, "Read-only file system");
		ASSERT_EQ(box_kill(&b), 0);
		image_sum(sum[1]);
		CHECK_STREQ(sum[0], sum[1]);
		ASSERT_EQ(umount2(b.dir, MNT_DETACH), 0);
		ASSERT_EQ(box_erase(&b), 0);
	}
}

TEST_TIMEOUT(a_path_over_a_link, 60)
{
	world();
	make_image(0);
	SUBTEST("there is no room")
	{
		/* /lib is a link of the image. */
		const char *options[] = {"--net", "none",      "--rootfs", image,
					 "--ro",  "/lib/udev", NULL};

		if (access("/lib/udev", F_OK) < 0)
			SKIP("no /lib/udev here");
		ASSERT_EQ(box_make(&b, BOX_ROOT, "a"), 0);
		ASSERT_EQ(box_start(&b, options), -1);
		ASSERT_CONTAINS(b.said, "leads through a link of the image");
	}
	SUBTEST("room is made")
	{
		const char *options[] = {"--net", "none",           "--rootfs", image,
					 "--ro",  "/usr/share/doc", NULL};

		ASSERT_EQ(box_make(&b, BOX_ROOT, "b"), 0);
		begin(BOX_ROOT, "room", options);
		check_sh(1000, "ls /usr; test -n \"$(ls /usr/share/doc)\" && echo shown",
			 "lib\nshare\nshown");
		ASSERT_EQ(box_kill(&b), 0);
		ASSERT_EQ(box_erase(&b), 0);
	}
}

TEST_MAIN()
