/* SPDX-License-Identifier: Apache-2.0
 *
 * What every sandbox has of its own: /dev, /proc, /tmp, /run, /dev/shm, and the files in /etc that say how names are looked up.
 */

#include "sandbox/plan-private.h"

/* How tmp_bytes is divided. */
#define TMP_SHARE_EIGHTHS 4
#define SHM_SHARE_EIGHTHS 3
#define RUN_SHARE_EIGHTHS 1

static const char HOSTS[] = "127.0.0.1 localhost\n"
                            "::1 localhost ip6-localhost ip6-loopback\n";
/* Every address is the sandbox's own, so this one answers, too. */
static const char RESOLV_CONF[] = "nameserver 127.0.0.1\n";
static const char RESOLV_CONF_NO_NETWORK[] = "# no network\n";
/* Files and DNS only: other ways lead to sockets of the host. */
static const char NSSWITCH_CONF[] = "passwd: files\n"
                                    "group: files\n"
                                    "shadow: files\n"
                                    "hosts: files dns\n"
                                    "networks: files\n"
                                    "protocols: files\n"
                                    "services: files\n"
                                    "ethers: files\n"
                                    "rpc: files\n";

/* Directories in the home directory that srt makes writable so that programs do not complain. */
static const char *const SCRATCH[] = {".npm/_logs", ".claude/debug"};

static IpbPlanMount *
add_fixed(IpbPlanner *planner, IpbMountKind kind, const char *path, const char *reason)
{
    IpbPlanRule *rule = ipb_plan_rule_get(planner, path, kind != IPB_MOUNT_FILE);
    ipb_plan_mount_free(rule->fixed);
    rule->fixed = ipb_plan_mount_new(kind, NULL, path, reason);
    return rule->fixed;
}

static void
add_private(IpbPlanner *planner, const char *path, unsigned eighths, const char *reason)
{
    add_fixed(planner, IPB_MOUNT_TMPFS, path, reason)->size_bytes =
        planner->plan->limits.tmp_bytes / 8 * eighths;
}

/* Over the file where it really is, since it is often a link into /run. One that is not there can only be made where we make the
 * file system, too. */
static void
add_file(IpbPlanner *planner, const char *path, const char *content, const char *reason)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    bool can_be_made = found.state == IPB_PATH_MISSING && ipb_path_is_below(found.real, "/run");
    if (found.state != IPB_PATH_FILE && !can_be_made)
        return;
    add_fixed(planner, IPB_MOUNT_FILE, found.real, reason)->content = g_strdup(content);
}

static void
add_scratch(IpbPlanner *planner, const char *name)
{
    g_autofree char *path = g_build_filename(planner->options->home, name, NULL);
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state != IPB_PATH_DIRECTORY)
        return;
    IpbPlanRule *rule = ipb_plan_rule_get(planner, found.real, true);
    rule->is_private = true;
    ipb_plan_set_reason(&rule->read_reason, "programs write logs here; they are not kept");
}

void
ipb_plan_add_system(IpbPlanner *planner)
{
    const IpbSandboxPolicy *policy = planner->plan->policy;
    bool has_network = ipb_plan_has_network(planner);
    add_fixed(planner, IPB_MOUNT_PROC, "/proc", "shows the sandbox's own processes only");
    add_fixed(planner, IPB_MOUNT_DEV, "/dev", "a few harmless devices");
    if (policy->allow_pty)
        add_fixed(planner, IPB_MOUNT_DEVPTS, "/dev/pts", "terminals of its own (allowPty)");
    add_private(planner, "/dev/shm", SHM_SHARE_EIGHTHS, "shared memory of its own");
    add_private(planner, "/tmp", TMP_SHARE_EIGHTHS, "temporary files of its own");
    if (!policy->allow_all_unix_sockets)
        add_private(planner, "/run", RUN_SHARE_EIGHTHS, "keeps the host's services out of sight");
    add_file(planner, "/etc/hosts", HOSTS, "names of the host's network are no business of it");
    add_file(planner, "/etc/resolv.conf", has_network ? RESOLV_CONF : RESOLV_CONF_NO_NETWORK,
             has_network ? "names are answered by the sandbox" : "there is no network");
    add_file(planner, "/etc/nsswitch.conf", NSSWITCH_CONF, "no look-ups by services of the host");
    for (size_t i = 0; i < G_N_ELEMENTS(SCRATCH); i++)
        add_scratch(planner, SCRATCH[i]);
    ipb_plan_deny_write(planner, "/sys", "the kernel's settings");
}
