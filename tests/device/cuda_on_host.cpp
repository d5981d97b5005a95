// The kernels of `nearest.cu` on the processor, compiled from the same source.
//
// This file defines the built-in names of CUDA, and `launch` runs a grid block by block. A block's
// threads are fibers. A fiber runs until it waits at a barrier or for its partners in a shuffle. It
// continues when all threads of the barrier or the shuffle wait. The order of the threads can be
// chosen: some orders hide a missing barrier, and others show it.

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __shared__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct alignas(16) float4 {
    float x, y, z, w;
};

struct Place {
    unsigned x = 0, y = 0, z = 0;
};

static Place threadIdx, blockIdx, blockDim, gridDim;

// The result of a launch.
enum Status {
    RAN = 0,
    NO_KERNEL = 1,
    // The number of arguments differs, or the size of an argument.
    WRONG_ARGUMENTS = 2,
    // Some threads wait at a barrier or for a shuffle that other threads never reach.
    STUCK = 3,
    // A kernel wrote beyond the shared memory that the launch requested.
    WROTE_BEYOND = 4,
};

enum State { RUNS, AT_BARRIER, AT_SHUFFLE, ENDED };

const int WARP_SIZE = 32;
const std::size_t MOST_SHARED = 232448, BEYOND = 1024, STACK = 1 << 16;
const unsigned char UNSET = 0xff;  // a float of these bytes is NaN

struct Fiber {
    ucontext_t context;
    std::vector<unsigned char> stack;
    State state;
    // A shuffle's lanes, the partner whose value is read, the value given and the value read.
    unsigned mask;
    int partner;
    unsigned char given[8], taken[8];
};

static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static int running;
static std::function<void()> body;

static void wait(State state) {
    fibers[running].state = state;
    swapcontext(&fibers[running].context, &scheduler);
}

static void enter() {
    body();
    wait(ENDED);
}

static void __syncthreads() { wait(AT_BARRIER); }

template <class T>
static T __shfl_xor_sync(unsigned mask, T value, int lanes) {
    Fiber &fiber = fibers[running];
    const int lane = running % WARP_SIZE;
    fiber.mask = mask;
    fiber.partner = running - lane + (lane ^ lanes);
    std::memcpy(fiber.given, &value, sizeof value);
    wait(AT_SHUFFLE);
    std::memcpy(&value, fiber.taken, sizeof value);
    return value;
}

static unsigned atomicAdd(unsigned *address, unsigned value) {
    return std::exchange(*address, *address + value);
}

static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static float __int_as_float(int bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Without contraction, which the compiler's options forbid, each of these rounds once.
static float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fsub_rn(float a, float b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __dadd_rn(double a, double b) { return a + b; }

#include SOURCE

float4 shared_memory[(MOST_SHARED + BEYOND) / sizeof(float4)];

// Return whether all lanes of a thread's shuffle wait for the same shuffle.
static bool all_shuffle(int thread) {
    const int first = thread - thread % WARP_SIZE;
    const unsigned mask = fibers[thread].mask;
    if (!(mask >> (thread % WARP_SIZE) & 1u)) return false;
    for (int lane = 0; lane < WARP_SIZE; ++lane) {
        if (!(mask >> lane & 1u)) continue;
        const Fiber &other = fibers[first + lane];
        if (other.state != AT_SHUFFLE || other.mask != mask) return false;
    }
    return true;
}

// Release the threads whose barrier or shuffle is complete; return whether there are any.
static bool release(int n_threads) {
    std::vector<int> free;
    bool barrier = true;
    for (int i = 0; i < n_threads; ++i) {
        barrier &= fibers[i].state == AT_BARRIER;
        if (fibers[i].state == AT_SHUFFLE && all_shuffle(i)) free.push_back(i);
    }
    for (int i : free)
        std::memcpy(fibers[i].taken, fibers[fibers[i].partner].given, sizeof fibers[i].taken);
    for (int i : free) fibers[i].state = RUNS;
    for (int i = 0; barrier && i < n_threads; ++i) fibers[i].state = RUNS;
    return barrier || !free.empty();
}

static Status run_block(const std::vector<int> &order) {
    for (int i : order) {
        Fiber &fiber = fibers[i];
        fiber.stack.resize(STACK);
        fiber.state = RUNS;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
    }
    for (;;) {
        bool all_ended = true;
        for (int i : order) {
            if (fibers[i].state == RUNS) {
                running = i;
                threadIdx.x = i;
                swapcontext(&scheduler, &fibers[i].context);
            }
            all_ended &= fibers[i].state == ENDED;
        }
        if (all_ended) return RAN;
        if (!release(order.size())) return STUCK;
    }
}

struct Kernel {
    const char *name;
    std::vector<std::size_t> sizes;
    std::function<void(void **)> call;
};

template <class... A, std::size_t... I>
static void call_with(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*(A *)arguments[I]...);
}

template <class... A>
static Kernel described(const char *name, void (*kernel)(A...)) {
    return {name, {sizeof(A)...}, [kernel](void **arguments) {
                call_with(kernel, arguments, std::index_sequence_for<A...>());
            }};
}

static const Kernel KERNELS[] = {
    described("measure_rows", measure_rows),
    described("scan_tiles", scan_tiles),
    described("decide", decide),
    described("settle", settle),
};

// Run a kernel on a grid (x, y), with a number of threads per block and bytes of shared memory.
// `arguments` has addresses. `schedule` orders threads: ascending (0), descending (1) or random.
extern "C" int launch(
    const char *name, const int *grid, int n_threads, int n_shared, int schedule,
    int n_arguments, void **arguments, const std::size_t *sizes) {
    const Kernel *kernel = nullptr;
    for (const Kernel &known : KERNELS)
        if (std::strcmp(known.name, name) == 0) kernel = &known;
    if (kernel == nullptr) return NO_KERNEL;
    if (kernel->sizes != std::vector<std::size_t>(sizes, sizes + n_arguments))
        return WRONG_ARGUMENTS;
    if (fibers.size() < (std::size_t)n_threads) fibers.resize(n_threads);
    std::vector<int> order(n_threads);
    std::iota(order.begin(), order.end(), 0);
    if (schedule == 1) std::reverse(order.begin(), order.end());
    std::mt19937 random(schedule);
    body = [&] { kernel->call(arguments); };
    blockDim.x = n_threads;
    gridDim.x = grid[0];
    gridDim.y = grid[1];
    unsigned char *shared = (unsigned char *)shared_memory;
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            if (schedule > 1) std::shuffle(order.begin(), order.end(), random);
            std::memset(shared, UNSET, n_shared + BEYOND);
            const Status status = run_block(order);
            if (status != RAN) return status;
            for (std::size_t i = 0; i < BEYOND; ++i)
                if (shared[n_shared + i] != UNSET) return WROTE_BEYOND;
        }
    return RAN;
}
