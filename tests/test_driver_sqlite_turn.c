/* The writers of one process take turns at a SQLite file: one at a time, oldest first, within their deadline. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "pool/driver_sqlite_turn.h"
#include "tests/support.h"

static const char *new_file(void)
{
    const char *path = hf_test_format("/tmp/%s.db", hf_test_scratch("turn"));
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    close(fd);
    return path;
}

struct shared {
    struct hf__sqlite_turns *turns;
    int inside, worst, done; /* guarded by the turn itself */
};

static void *write_often(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < 200; i++) {
        if (!hf__sqlite_turn_take(shared->turns, hf__after_ms(60000)))
            return arg;
        shared->inside++;
        shared->worst = shared->inside > shared->worst ? shared->inside : shared->worst;
        shared->done++;
        shared->inside--;
        hf__sqlite_turn_end(shared->turns);
    }
    return NULL;
}

static void test_one_at_a_time(void)
{
    const char *path = new_file();
    struct shared shared = {.turns = hf__sqlite_turns_at(path)};
    pthread_t threads[8];
    CU_ASSERT_PTR_NOT_NULL_FATAL(shared.turns);
    for (size_t i = 0; i < 8; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, write_often, &shared), 0);
    for (size_t i = 0; i < 8; i++) {
        void *failed;
        CU_ASSERT_EQUAL_FATAL(pthread_join(threads[i], &failed), 0);
        CU_ASSERT_PTR_NULL(failed);
    }
    CU_ASSERT_EQUAL(shared.worst, 1);
    CU_ASSERT_EQUAL(shared.done, 1600);
    hf__sqlite_turns_leave(shared.turns);
    unlink(path);
}

/* One thread's name is written down when its turn comes. */
struct in_line {
    struct hf__sqlite_turns *turns;
    char name, *order;
    atomic_int thread; /* its number once it asks */
};

static void *write_name(void *arg)
{
    struct in_line *me = arg;
    atomic_store(&me->thread, (int)gettid());
    if (!hf__sqlite_turn_take(me->turns, hf__after_ms(60000)))
        return arg;
    char *at = me->order;
    while (*at)
        at++;
    *at = me->name;
    hf__sqlite_turn_end(me->turns);
    return NULL;
}

/* It has asked and sleeps: it stands in line. */
static bool stands_in_line(void *arg)
{
    const struct in_line *one = arg;
    int thread = atomic_load(&one->thread);
    char state = '?';
    FILE *file = thread > 0 ? fopen(hf_test_format("/proc/self/task/%d/stat", thread), "re") : NULL;
    if (file) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = '?';
        fclose(file);
    }
    return state == 'S';
}

static void test_oldest_first(void)
{
    const char *path = new_file();
    struct hf__sqlite_turns *turns = hf__sqlite_turns_at(path);
    char order[8] = "";
    pthread_t threads[4];
    struct in_line line[4];
    CU_ASSERT_TRUE_FATAL(hf__sqlite_turn_take(turns, hf__after_ms(60000)));
    for (size_t i = 0; i < 4; i++) {
        line[i] = (struct in_line){turns, (char)('a' + (int)i), order, 0};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, write_name, &line[i]), 0);
        CU_ASSERT_TRUE(hf_test_wait_until(stands_in_line, &line[i], 30000)); /* the next one starts behind it */
        CU_ASSERT_FALSE(hf__sqlite_turn_take(turns, hf__after_ms(20)));
    }
    hf__sqlite_turn_end(turns);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_join(threads[i], NULL), 0);
    CU_ASSERT_STRING_EQUAL(order, "abcd");
    hf__sqlite_turns_leave(turns);
    unlink(path);
}

static void test_deadline(void)
{
    const char *path = new_file();
    struct hf__sqlite_turns *turns = hf__sqlite_turns_at(path);
    CU_ASSERT_TRUE(hf__sqlite_turn_take(turns, hf__after_ms(0)));
    int64_t before = hf_test_now_ms();
    CU_ASSERT_FALSE(hf__sqlite_turn_take(turns, hf__after_ms(150)));
    CU_ASSERT_TRUE(hf_test_now_ms() - before >= 150);
    hf__sqlite_turn_end(turns);
    CU_ASSERT_TRUE(hf__sqlite_turn_take(turns, hf__after_ms(0))); /* nobody is left in line */
    hf__sqlite_turn_end(turns);
    hf__sqlite_turns_leave(turns);
    unlink(path);
}

static void test_one_file_many_names(void)
{
    const char *path = new_file(), *other = new_file(), *link = hf_test_format("%s-link", path);
    CU_ASSERT_EQUAL_FATAL(symlink(path, link), 0);
    struct hf__sqlite_turns *one = hf__sqlite_turns_at(path), *same = hf__sqlite_turns_at(link), *two = hf__sqlite_turns_at(other);
    CU_ASSERT_PTR_EQUAL(one, same);
    CU_ASSERT_PTR_NOT_EQUAL(one, two);
    CU_ASSERT_PTR_NULL(hf__sqlite_turns_at("/nowhere/x.db"));
    hf__sqlite_turns_leave(one);
    hf__sqlite_turns_leave(same);
    hf__sqlite_turns_leave(two);
    hf__sqlite_turns_leave(NULL);
    unlink(link);
    unlink(path);
    unlink(other);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"one at a time", test_one_at_a_time},
                           {"oldest first", test_oldest_first},
                           {"deadline", test_deadline},
                           {"one file, many names", test_one_file_many_names},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "driver_sqlite_turn", tests);
}
