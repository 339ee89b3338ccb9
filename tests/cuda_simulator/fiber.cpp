#include "tests/cuda_simulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifndef SIM_ASAN
#define SIM_ASAN 0
#endif

#if SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

/* Frames under AddressSanitizer are several times as large. */
constexpr size_t stack_bytes = SIM_ASAN ? 1024 * 1024 : 256 * 1024;

} // namespace

/* Pushes the callee-saved registers, stores the stack pointer, loads the other one, and pops. */
extern "C" void sim_fiber_jump(void **save, void *to);

#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .hidden sim_fiber_jump
    .globl sim_fiber_jump
    .type sim_fiber_jump, @function
sim_fiber_jump:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size sim_fiber_jump, .-sim_fiber_jump
)");
/* The frame holds six registers and the return address. A function begins with a stack pointer that
 * is 8 bytes off a multiple of 16. */
static void *first_frame(char *top, void (*entry)()) {
    void **const frame = reinterpret_cast<void **>(top) - 8;
    for (int i = 0; i < 8; i++)
        frame[i] = nullptr;
    frame[6] = reinterpret_cast<void *>(entry);
    return frame;
}
#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 4
    .hidden sim_fiber_jump
    .globl sim_fiber_jump
    .type sim_fiber_jump, %function
sim_fiber_jump:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size sim_fiber_jump, .-sim_fiber_jump
)");
static void *first_frame(char *top, void (*entry)()) {
    void **const frame = reinterpret_cast<void **>(top) - 20;
    for (int i = 0; i < 20; i++)
        frame[i] = nullptr;
    frame[11] = reinterpret_cast<void *>(entry);
    return frame;
}
#else
#error "The CUDA simulator switches stacks on x86-64 and AArch64 only"
#endif

/* Stack addresses are multiples of a power of two. Without this offset, equal positions in stacks
 * would share a cache set. */
static char *top_of(const sim_fiber *fiber) {
    const uintptr_t colour = reinterpret_cast<uintptr_t>(fiber->stack) / stack_bytes % 16 * 256;
    return fiber->stack + fiber->bytes - colour;
}

bool sim_fiber_create(sim_fiber *fiber, void (*entry)()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *const memory = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    mprotect(memory, page, PROT_NONE); /* a stack overflow stops here */
    fiber->stack = static_cast<char *>(memory) + page;
    fiber->bytes = stack_bytes;
    sim_fiber_reset(fiber, entry);
    return true;
}

void sim_fiber_reset(sim_fiber *fiber, void (*entry)()) {
#if SIM_ASAN
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack, fiber->bytes);
#endif
    fiber->fake_stack = nullptr;
    fiber->stack_pointer = first_frame(top_of(fiber), entry);
}

void sim_fiber_destroy(sim_fiber *fiber) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (fiber->stack != nullptr) {
#if SIM_ASAN /* memory that is mapped here next is not a stack */
        ASAN_UNPOISON_MEMORY_REGION(fiber->stack, fiber->bytes);
#endif
        munmap(fiber->stack - page, fiber->bytes + page);
    }
    *fiber = sim_fiber();
}

void sim_fiber_switch(sim_fiber *from, sim_fiber *to) {
#if SIM_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->bytes);
#endif
    sim_fiber_jump(&from->stack_pointer, to->stack_pointer);
#if SIM_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

void sim_fiber_begin(sim_fiber *from) {
#if SIM_ASAN
    const void *bottom = nullptr;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (from->stack == nullptr) { /* the thread's own stack: AddressSanitizer knows its location */
        from->stack = static_cast<char *>(const_cast<void *>(bottom));
        from->bytes = bytes;
    }
#else
    (void)from;
#endif
}
