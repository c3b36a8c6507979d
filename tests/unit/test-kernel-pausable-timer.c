/* SPDX-License-Identifier: Apache-2.0
 *
 * Deadlines: pauses, and extensions for the time in which a process gets no CPU.
 */
#include <limits.h>
#include <unistd.h>

#include "kernel/pausable-timer.h"

#define DELAY_MS 20

typedef struct {
    IpbLoop *loop;
    IpbPausableTimer timer;
    const uint64_t *waits_ms; /* one per call; the last one repeats */
    unsigned n_waits, n_asked, n_ended;
} Fixture;

static uint64_t
next_wait(void *data)
{
    Fixture *fixture = data;
    unsigned i = MIN(fixture->n_asked, fixture->n_waits - 1);
    fixture->n_asked++;
    return fixture->waits_ms[i] * 1000;
}

static void
on_end(void *data)
{
    ((Fixture *) data)->n_ended++;
}

static void
set_up(Fixture *fixture, const uint64_t *waits_ms, unsigned n_waits)
{
    static const IpbPausableTimerFuncs funcs = {on_end, next_wait};
    g_autoptr(GError) error = NULL;
    *fixture = (Fixture){.waits_ms = waits_ms, .n_waits = n_waits};
    fixture->loop = ipb_loop_new(NULL, &error);
    g_assert_no_error(error);
    ipb_pausable_timer_init(&fixture->timer, fixture->loop, &funcs, fixture);
}

static void
run_to_end(Fixture *fixture)
{
    ipb_pausable_timer_set(&fixture->timer, DELAY_MS);
    while (fixture->n_ended == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(fixture->timer.is_set);
    g_assert_cmpuint(fixture->n_ended, ==, 1);
    ipb_pausable_timer_unset(&fixture->timer);
    ipb_loop_unref(fixture->loop);
}

static void
test_starved(void)
{
    /* The CPU wait at the start, at the first expiry, at the second expiry, and so on. */
    static const uint64_t waits_ms[] = {500, 700, 900, 950};
    Fixture fixture;
    set_up(&fixture, waits_ms, G_N_ELEMENTS(waits_ms));
    run_to_end(&fixture);
    g_assert_cmpuint(fixture.n_asked, >=, G_N_ELEMENTS(waits_ms));
}

static void
test_implausible_waits(void)
{
    static const uint64_t none[] = {0}, falling[] = {UINT_MAX, 0};
    Fixture fixture;
    set_up(&fixture, none, G_N_ELEMENTS(none));
    run_to_end(&fixture);
    set_up(&fixture, falling, G_N_ELEMENTS(falling));
    run_to_end(&fixture);
}

static void
test_paused(void)
{
    static const uint64_t waits_ms[] = {0, 200, 200};
    Fixture fixture;
    set_up(&fixture, waits_ms, G_N_ELEMENTS(waits_ms));
    ipb_pausable_timer_set_paused(&fixture.timer, true);
    ipb_pausable_timer_set(&fixture.timer, DELAY_MS);
    g_assert_null(fixture.timer.timer);
    ipb_pausable_timer_set_paused(&fixture.timer, false);
    /* An extended timer can be paused, too. */
    while (fixture.timer.extended_ms == 0)
        g_main_context_iteration(NULL, TRUE);
    ipb_pausable_timer_set_paused(&fixture.timer, true);
    g_assert_null(fixture.timer.timer);
    g_assert_true(fixture.timer.is_set);
    ipb_pausable_timer_set_paused(&fixture.timer, false);
    run_to_end(&fixture);
}

static void
test_cpu_wait(void)
{
    uint64_t before = ipb_pausable_timer_cpu_wait_us(getpid());
    g_assert_cmpuint(ipb_pausable_timer_cpu_wait_us(getpid()), >=, before);
    g_assert_cmpuint(ipb_pausable_timer_cpu_wait_us(INT_MAX), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel/pausable-timer/starved", test_starved);
    g_test_add_func("/kernel/pausable-timer/implausible-waits", test_implausible_waits);
    g_test_add_func("/kernel/pausable-timer/paused", test_paused);
    g_test_add_func("/kernel/pausable-timer/cpu-wait", test_cpu_wait);
    return g_test_run();
}
