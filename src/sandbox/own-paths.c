/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/own-paths.h"

#include "sandbox/path.h"

/* How tmp_bytes is divided. */
#define TMP_SHARE_EIGHTHS 4
#define SHM_SHARE_EIGHTHS 3
#define RUN_SHARE_EIGHTHS 1

static const char HOSTS[] = "127.0.0.1 localhost\n"
                            "::1 localhost ip6-localhost ip6-loopback\n";
/* Every address belongs to the sandbox, so this one is answered, too. */
static const char RESOLV_CONF[] = "nameserver 127.0.0.1\n";
static const char RESOLV_CONF_NO_NETWORK[] = "# no network\n";
/* Files and DNS only: the other sources are reached through sockets of the host. */
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

static IpbOwnPlace *
add_own(IpbPathRules *rules, IpbOwnKind kind, const char *path, const char *reason)
{
    return ipb_path_rule_set_own(ipb_path_rules_get(rules, path, kind != IPB_OWN_FILE), kind,
                                 reason);
}

static void
add_directory(IpbSandboxPlan *plan, const char *path, unsigned eighths, const char *reason)
{
    add_own(plan->paths, IPB_OWN_DIRECTORY, path, reason)->size_bytes =
        plan->limits.tmp_bytes / 8 * eighths;
}

/* At the real path of the file, which is often reached through a link into /run. A file that does
 * not exist can be added in /run only, which is the sandbox's own. */
static void
add_file(IpbPathRules *rules, const char *path, const char *content, const char *reason)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    bool can_be_added = found.state == IPB_PATH_MISSING && ipb_path_is_below(found.real, "/run");
    if (found.state != IPB_PATH_FILE && !can_be_added)
        return;
    add_own(rules, IPB_OWN_FILE, found.real, reason)->content = g_strdup(content);
}

static void
add_scratch(IpbPathRules *rules, const char *home, const char *name)
{
    g_autofree char *path = g_build_filename(home, name, NULL);
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state != IPB_PATH_DIRECTORY)
        return;
    IpbPathRule *rule = ipb_path_rules_get(rules, found.real, true);
    rule->is_private = true;
    ipb_path_rule_add_read_reason(rule, "programs write logs here; they are not kept");
}

void
ipb_own_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options, bool has_network)
{
    IpbPathRules *rules = plan->paths;
    add_own(rules, IPB_OWN_PROCESSES, "/proc", "shows the sandbox's own processes only");
    add_own(rules, IPB_OWN_DEVICES, "/dev", "a few harmless devices");
    if (plan->policy->allow_pty)
        add_own(rules, IPB_OWN_TERMINALS, "/dev/pts", "terminals of its own (allowPty)");
    add_directory(plan, "/dev/shm", SHM_SHARE_EIGHTHS, "shared memory of its own");
    add_directory(plan, "/tmp", TMP_SHARE_EIGHTHS, "temporary files of its own");
    if (!plan->policy->allow_all_unix_sockets)
        add_directory(plan, "/run", RUN_SHARE_EIGHTHS, "hides the host's services");
    add_file(rules, "/etc/hosts", HOSTS, "hides names of the host's network");
    add_file(rules, "/etc/resolv.conf", has_network ? RESOLV_CONF : RESOLV_CONF_NO_NETWORK,
             has_network ? "the sandbox resolves names" : "there is no network");
    add_file(rules, "/etc/nsswitch.conf", NSSWITCH_CONF, "no look-ups by services of the host");
    for (size_t i = 0; i < G_N_ELEMENTS(SCRATCH); i++)
        add_scratch(rules, options->home, SCRATCH[i]);
    ipb_path_rules_deny_write(rules, "/sys", "the kernel's settings");
}
