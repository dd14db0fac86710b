# Of ctest's output with --output-on-failure: what each test that did not pass has to say of it. CUnit's failures with what they quote, the
# heads of sanitizers' reports with the tops of their stacks; where there is neither, the last lines. Set step to the name of the run.
BEGIN { MOST = 40; FRAMES = 12; QUOTED = 3; LAST = 10; WIDTH = 300 }

function say(line) {
    if (said < MOST)
        print "    " substr(line, 1, WIDTH)
    said++
}

function end_test(    i) {
    if (test == "")
        return
    for (i = said ? seen : seen > LAST ? seen - LAST : 0; i < seen; i++)
        say(last[i % LAST])
    if (said > MOST)
        print "    (" said - MOST " more such lines)"
    test = ""
}

/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    end_test()
    if ($0 !~ / Passed +[0-9.]+ sec$/) {
        test = $0
        sub(/^[^:]*: /, "", test)
        gsub(/ \.\.+/, " ", test)
        print step ": " test
        said = seen = frames = quoted = 0
    }
    next
}
/^ +Start +[0-9]+: / || /% tests passed/ { end_test() }
test == "" { next }
/[^ ]/ { last[seen++ % LAST] = $0 }
/(ERROR|WARNING): [A-Za-z]+Sanitizer/ || /: runtime error: / || /^SUMMARY: [A-Za-z]+Sanitizer/ { say($0); frames = FRAMES; quoted = 0; next }
/^ *#[0-9]+ / { if (frames-- > 0) say($0); next }
frames != 0 && /^ *([A-Z][a-z]+ leak|Previous |Write |Read |READ |WRITE |Atomic |Mutex |Location |Thread |freed by|previously allocated)/ {
    say($0)
    frames = FRAMES
    next
}
/^ +[0-9]+\. .*:[0-9]+ +- / { say($0); quoted = QUOTED; next }
/^ +Test: / || /^ *$/ || /^Run Summary/ { quoted = 0 }
/FAILED/ || quoted-- > 0 { say($0) }
END { end_test() }
