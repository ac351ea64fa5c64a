/* SPDX-License-Identifier: MIT */
/*
 * stage_list.c: what of the host's system an isolated sandbox sees, read-only. Data with a reason
 * per entry; stage_root.c acts on it. What is not there on this host is left out. Nothing is here
 * that may hold a secret: no keys below /etc/ssl or /etc/pki, no configuration of package managers
 * (tokens), no list of the host's users, no start-up files of shells (proxies with passwords).
 */
#include "agent/stage.h"

/* Where the host has a symbolic link, so has the sandbox. */
const struct stage_entry stage_system[] = {
	{"usr", "programs and libraries"},
	{"bin", "programs: /bin/sh"},
	{"sbin", "programs"},
	{"lib", "libraries, the dynamic linker of musl"},
	{"lib32", "libraries of 32 bits"},
	{"lib64", "the dynamic linker"},
	{"libx32", "libraries of x32"},
};
const size_t stage_n_system = ARRAY_LEN(stage_system);

const struct stage_entry stage_etc[] = {
	{"ld.so.cache", "the linker: without it many libraries are not found"},
	{"ld.so.conf", "the linker"},
	{"ld.so.conf.d", "the linker"},
	{"ld.so.preload", "the linker: what the host wants in every program"},
	{"ld-musl-*", "the linker of musl"},
	{"alternatives", "links that programs in /usr/bin go through"},
	{"ssl/certs", "certificates of authorities"},
	{"ssl/cert.pem", "the same, where Alpine has them"},
	{"ssl/openssl.cnf", "what OpenSSL reads first"},
	{"ca-certificates", "certificates of authorities"},
	{"ca-certificates.conf", "which of them are in use"},
	{"pki/tls/certs", "certificates, where Fedora has them"},
	{"pki/tls/cert.pem", "the same"},
	{"pki/tls/openssl.cnf", "what OpenSSL reads first"},
	{"pki/ca-trust/extracted", "what the links above lead to"},
	{"crypto-policies", "which ciphers Fedora's libraries take"},
	{"localtime", "time zone"},
	{"timezone", "its name"},
	{"host.conf", "names"},
	{"gai.conf", "names: which address first"},
	{"services", "names of ports"},
	{"protocols", "names of protocols"},
	{"ethertypes", "names of protocols"},
	{"networks", "names of networks"},
	{"rpc", "names of services"},
	{"mime.types", "types of files"},
	{"magic", "types of files"},
	{"magic.mime", "types of files"},
	{"os-release", "which system this is"},
	{"debian_version", "which system this is"},
	{"redhat-release", "which system this is"},
	{"alpine-release", "which system this is"},
	{"arch-release", "which system this is"},
	{"lsb-release", "which system this is"},
	{"locale.alias", "languages"},
	{"locale.conf", "languages"},
	{"terminfo", "terminals"},
	{"inputrc", "terminals: readline"},
	{"shells", "shells"},
	{"python3*", "the interpreter's own settings"},
	{"perl", "the interpreter's own settings"},
	{"java-*", "the runtime's own settings, which it does not start without"},
	{"fonts", "for programs that draw"},
	{"xml", "catalogues of document types"},
	{"sgml", "catalogues of document types"},
	{"gtk-3.0", "for programs that draw"},
	{"ImageMagick-*", "for programs that draw: limits"},
	{"OpenCL", "which drivers there are"},
	{"glvnd", "which drivers there are"},
	{"vulkan", "which drivers there are"},
	{"login.defs", "programs that ask for limits of ids"},
	{"xattr.conf", "cp -a: which attributes to leave out"},
};
const size_t stage_n_etc = ARRAY_LEN(stage_etc);
