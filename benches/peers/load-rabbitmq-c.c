/* The loads by rabbitmq-c. Options and report are those of the other load programs (src/load/options.rs); allocations
 * are not counted, and there is neither --ca nor --futures.
 *
 * cc -O2 -o load-rabbitmq-c load-rabbitmq-c.c -lrabbitmq */

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define CHANNEL 1
#define VARIETY 1000
#define BODIES_LEN (1 << 20)
#define CONFIRM_TIMEOUT 30

static amqp_connection_state_t connection;
static uint64_t count = 1000000, warm_up = 10000, window_len = 1000, ack_every = 100;
static size_t size = 16;
static const char *queue;
static char keys[VARIETY][16];
static unsigned char *bodies;
static uint64_t bodies_count;
/* Publishes so far, and tags: all up to acked are settled, and those whose bit is set beyond it. */
static uint64_t published, acked;
static unsigned char *settled;

static void fail(const char *what) {
    fprintf(stderr, "load-rabbitmq-c: %s\n", what);
    exit(1);
}

static void check(amqp_rpc_reply_t reply, const char *what) {
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail(what);
}

static uint64_t nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t peak_memory(void) {
    char line[256];
    uint64_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %lu", &kib);
    if (status) fclose(status);
    return kib * 1024;
}

static void make_workload(void) {
    for (int i = 0; i < VARIETY; i++) snprintf(keys[i], sizeof keys[i], "key.%0*d", 3 + rand() % 8, i);
    bodies_count = BODIES_LEN / (size ? size : 1);
    if (bodies_count > VARIETY) bodies_count = VARIETY;
    if (bodies_count < 1) bodies_count = 1;
    bodies = malloc(bodies_count * size + 1);
    for (uint64_t i = 0; i < bodies_count * size; i++) bodies[i] = (unsigned char)rand();
}

static void publish(void) {
    amqp_bytes_t body = {size, bodies + published % bodies_count * size};
    const char *key = queue ? queue : keys[published % VARIETY];
    int status = amqp_basic_publish(connection, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(key), 0, 0, NULL, body);
    if (status != AMQP_STATUS_OK) fail(amqp_error_string2(status));
    published++;
}

static void settle(uint64_t tag, int multiple) {
    if (tag <= acked || tag > published) fail("an ack for nothing");
    for (uint64_t open = multiple ? acked + 1 : tag; open <= tag; open++) settled[open % window_len] = 1;
    while (acked < published && settled[(acked + 1) % window_len]) settled[++acked % window_len] = 0;
}

/* Waits for one ack. */
static void read_ack(void) {
    struct timeval timeout = {CONFIRM_TIMEOUT, 0};
    amqp_frame_t frame;
    if (amqp_simple_wait_frame_noblock(connection, &frame, &timeout) != AMQP_STATUS_OK) fail("no ack");
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD) fail("not an ack");
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    settle(ack->delivery_tag, ack->multiple);
    amqp_maybe_release_buffers(connection);
}

static void confirmed(uint64_t messages) {
    for (uint64_t i = 0; i < messages; i++) {
        while (published - acked == window_len) read_ack();
        publish();
    }
    while (acked < published) read_ack();
}

static void unconfirmed(uint64_t messages) {
    for (uint64_t i = 0; i < messages; i++) publish();
    /* Its answer comes after all that was published before it. */
    if (!amqp_basic_qos(connection, CHANNEL, 0, 0, 0)) fail("qos");
}

static void consume(uint64_t messages) {
    for (uint64_t i = 1; i <= messages; i++) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(connection);
        check(amqp_consume_message(connection, &envelope, NULL, 0), "no delivery");
        amqp_bytes_t body = envelope.message.body;
        if (body.len != size || (size && ((char *)body.bytes)[size - 1] != 'x')) fail("not the body that was to come");
        uint64_t tag = envelope.delivery_tag;
        amqp_destroy_envelope(&envelope);
        if (ack_every && (i % ack_every == 0 || i == messages))
            if (amqp_basic_ack(connection, CHANNEL, tag, 1) != AMQP_STATUS_OK) fail("ack");
    }
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"address", 1, 0, 'a'}, {"queue", 1, 0, 'q'},  {"count", 1, 0, 'n'},     {"warm-up", 1, 0, 'u'},
        {"size", 1, 0, 's'},    {"window", 1, 0, 'w'}, {"ack-every", 1, 0, 'k'}, {0, 0, 0, 0},
    };
    char *address = NULL;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (option) {
        case 'a': address = optarg; break;
        case 'q': queue = optarg; break;
        case 'n': count = strtoull(optarg, NULL, 10); break;
        case 'u': warm_up = strtoull(optarg, NULL, 10); break;
        case 's': size = strtoull(optarg, NULL, 10); break;
        case 'w': window_len = strtoull(optarg, NULL, 10); break;
        case 'k': ack_every = strtoull(optarg, NULL, 10); break;
        default: fail("unknown option");
        }
    char *colon = address ? strrchr(address, ':') : NULL;
    if (!colon || optind + 1 != argc) fail("usage: load-rabbitmq-c WORK --address HOST:PORT ...");
    *colon = 0;
    const char *work = argv[optind];
    int is_confirmed = !strcmp(work, "confirmed"), is_in_turn = !strcmp(work, "in-turn"),
        is_unconfirmed = !strcmp(work, "unconfirmed"), is_consume = !strcmp(work, "consume");
    if (!(is_confirmed || is_in_turn || is_unconfirmed || is_consume)) fail("unknown work");

    make_workload();
    settled = calloc(window_len, 1);
    connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    if (amqp_socket_open(socket, address, atoi(colon + 1)) != AMQP_STATUS_OK) fail("connect");
    check(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"), "login");
    amqp_channel_open(connection, CHANNEL);
    check(amqp_get_rpc_reply(connection), "channel");
    if (is_confirmed || is_in_turn) {
        if (!amqp_confirm_select(connection, CHANNEL)) fail("confirm.select");
    } else if (is_consume) {
        char delivering[64];
        snprintf(delivering, sizeof delivering, "deliver:%lu:%zu", warm_up + count, size);
        if (!amqp_basic_qos(connection, CHANNEL, 0, (uint16_t)window_len, 0)) fail("qos");
        amqp_basic_consume(connection, CHANNEL, amqp_cstring_bytes(delivering), amqp_empty_bytes, 0, ack_every == 0, 0,
                           amqp_empty_table);
        check(amqp_get_rpc_reply(connection), "consume");
    }

    uint64_t *latencies = is_in_turn ? malloc(count * sizeof *latencies) : NULL;
    uint64_t cpu = 0, wall = 0;
    for (int measured = 0; measured < 2; measured++) {
        uint64_t messages = measured ? count : warm_up;
        cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID), wall = nanoseconds(CLOCK_MONOTONIC);
        if (is_confirmed) confirmed(messages);
        if (is_unconfirmed) unconfirmed(messages);
        if (is_consume) consume(messages);
        for (uint64_t i = 0; is_in_turn && i < messages; i++) {
            uint64_t start = nanoseconds(CLOCK_MONOTONIC);
            confirmed(1);
            if (measured) latencies[i] = nanoseconds(CLOCK_MONOTONIC) - start;
        }
    }
    cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall = nanoseconds(CLOCK_MONOTONIC) - wall;
    printf("{\"acked\":%lu,\"allocations\":0,\"cpu_ns\":%lu,\"wall_ns\":%lu,\"peak_memory\":%lu,\"latency\":", count, cpu,
           wall, peak_memory());
    if (is_in_turn) {
        qsort(latencies, count, sizeof *latencies, compare);
        printf("{\"p50_ns\":%lu,\"p99_ns\":%lu}}\n", latencies[count / 2], latencies[count * 99 / 100]);
    } else {
        printf("null}\n");
    }
    check(amqp_connection_close(connection, AMQP_REPLY_SUCCESS), "close");
    amqp_destroy_connection(connection);
    return 0;
}
