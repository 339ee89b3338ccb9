/* This file implements operations that the lanes of a warp execute together. */
#include "tests/cuda_simulator/scheduler_state.h"

namespace {

/* Returns the lanes that exist in the warp. The last warp of a block may lack some. */
uint32_t existing_lanes(const sim_thread *thread) {
    const int lanes = thread->home->threads - thread->warp * SIM_WARP;
    return lanes >= SIM_WARP ? 0xffffffffu : (1u << lanes) - 1u;
}

using exchange_list = std::vector<std::unique_ptr<sim_exchange>>;

/* Returns an exchange of the same lanes that this lane has not reached yet, or a new one. */
sim_exchange *exchange_of(exchange_list &list, uint32_t mask, uint32_t lane, const char *operation,
                          size_t bytes) {
    sim_exchange *unused = nullptr;
    for (const std::unique_ptr<sim_exchange> &exchange : list) {
        if (exchange->unread == 0 && exchange->arrived == 0) {
            unused = exchange.get();
        } else if (exchange->mask == mask && exchange->arrived != mask &&
                   (exchange->arrived & lane) == 0) {
            if (exchange->bytes != bytes || strcmp(exchange->operation, operation) != 0) {
                tandem_sim_fail("%s of %zu bytes where other lanes of mask %#x are at %s of %zu",
                                operation, bytes, mask, exchange->operation, exchange->bytes);
            }
            return exchange.get();
        }
    }
    if (unused == nullptr) {
        list.push_back(std::make_unique<sim_exchange>());
        unused = list.back().get();
    }
    unused->operation = operation;
    unused->mask = mask;
    unused->arrived = unused->unread = 0;
    unused->bytes = bytes;
    return unused;
}

} // namespace

const unsigned char (*tandem_sim_warp_exchange(const char *operation, uint32_t mask,
                                               const void *value,
                                               size_t bytes))[TANDEM_SIM_EXCHANGE_BYTES] {
    sim_thread *const thread = sim_thread_running();
    const uint32_t lane = 1u << thread->lane, all = mask & existing_lanes(thread);
    if ((mask & lane) == 0) {
        tandem_sim_fail("%s by lane %d, which is not in its mask %#x", operation, thread->lane,
                        mask);
    }
    if (thread->exchange_count == SIM_EXCHANGES)
        tandem_sim_fail("%s inside of %d others", operation, SIM_EXCHANGES);
    sim_exchange *const exchange = exchange_of(
        thread->home->warps[static_cast<size_t>(thread->warp)], all, lane, operation, bytes);
    memcpy(exchange->values[thread->lane], value, bytes);
    exchange->arrived |= lane;
    thread->exchanges[thread->exchange_count++] = exchange;
    if (exchange->arrived != all) {
        exchange->waiting[thread->lane] = thread;
        thread->waiting = SIM_AT_EXCHANGE;
        thread->site = 0;
        sim_worker_running->wait();
        return exchange->values;
    }
    exchange->unread = all;
    for (int l = 0; l < SIM_WARP; l++)
        if ((all >> l & 1u) != 0 && l != thread->lane)
            sim_worker_running->make_ready(exchange->waiting[l]);
    return exchange->values;
}

void tandem_sim_warp_release(uint32_t mask) {
    (void)mask;
    sim_thread *const thread = sim_thread_running();
    sim_exchange *const exchange = thread->exchanges[--thread->exchange_count];
    exchange->unread &= ~(1u << thread->lane);
    if (exchange->unread == 0)
        exchange->arrived = 0;
}

int tandem_sim_source_lane(uint32_t mask, int wanted, int width, bool inside) {
    const int self = tandem_sim_self->lane;
    if (width < 1 || width > SIM_WARP || (width & (width - 1)) != 0)
        tandem_sim_fail("a shuffle of width %d", width);
    const int lane = inside ? wanted : self;
    if ((mask >> lane & 1u) == 0)
        tandem_sim_fail("a shuffle from lane %d, which is not in its mask %#x", lane, mask);
    return lane;
}

uint32_t tandem_sim_ballot(uint32_t mask, bool vote) {
    const tandem_sim_exchange<bool> all("__ballot_sync", mask, vote);
    const uint32_t lanes = mask & existing_lanes(sim_thread_running());
    uint32_t votes = 0;
    for (int l = 0; l < SIM_WARP; l++)
        if ((lanes >> l & 1u) != 0 && all[l])
            votes |= 1u << l;
    return votes;
}
