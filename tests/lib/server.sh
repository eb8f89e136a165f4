# server.sh: what tests/lib/postgres, rabbitmq and kafka share (sourced by bash)
#
# A private server lives in two places: DIR, named by the caller, keeps its logs
# and a file `home` with the path of the second, a short directory below /tmp
# (a Unix socket's path may not exceed 107 bytes, and DIR may).

die() { echo "${0##*/}: $*" >&2; exit 1; }

# now_ms: milliseconds, for deadlines.
now_ms() { echo $(( ${EPOCHREALTIME/[.,]/} / 1000 )); }

# wait_for SECONDS COMMAND…: until COMMAND succeeds, or fail.
wait_for() {
    local end=$(( $(now_ms) + $1 * 1000 )); shift
    until "$@"; do
        [ "$(now_ms)" -lt "$end" ] || return 1
        sleep 0.05
    done
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# claim_port HOME: prints a port below the kernel's own range that nobody
# listens on, and reserves it for the server in HOME. mkdir decides between
# several that look at the same time; a claim whose HOME is gone is void.
claim_port() {
    local claims=/tmp/penstock-ports port
    mkdir -p -m 1777 "$claims"
    for _ in {1..500}; do
        port=$(( 20000 + (RANDOM * 32768 + RANDOM) % 12000 ))
        if [ -f "$claims/$port/home" ] && [ ! -d "$(cat "$claims/$port/home")" ]; then
            rm -rf "${claims:?}/$port"
        fi
        mkdir "$claims/$port" 2>/dev/null || continue
        echo "$1" >"$claims/$port/home"
        if port_open "$port"; then continue; fi
        echo "$port"
        return
    done
    die "no free port found"
}

release_ports() {
    local claim
    for claim in /tmp/penstock-ports/*/home; do
        if [ "$(cat "$claim" 2>/dev/null)" = "$1" ]; then rm -rf "${claim%/home}"; fi
    done
}

# launch HOME NAME LOG COMMAND…: in a session of its own, without any of our
# descriptors (a server started under a lock would keep the lock), its pid in
# HOME/NAME.pid together with its start time.
launch() {
    local home=$1 name=$2 log=$3 pid; shift 3
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
        done 2>/dev/null
        exec setsid "$@" </dev/null >>"$log" 2>&1
    ) &
    pid=$!
    echo "$pid $(start_time "$pid")" >"$home/$name.pid"
    disown "$pid" 2>/dev/null || true
}

# start_time PID: in clock ticks since boot; tells a process from a later one
# that got the same pid. Empty when there is none, or only a zombie.
start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    set -- ${stat##*) }
    [ "$1" = Z ] || echo "${20}"
}

# pid_of HOME NAME: prints the pid while that very process lives, else fails.
pid_of() {
    local pid started
    read -r pid started 2>/dev/null <"$1/$2.pid" || return 1
    [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] || return 1
    echo "$pid"
}

gone() { ! pid_of "$1" "$2" >/dev/null; }

# kill_session PID: with -9, everything in the session that `launch` made.
kill_session() {
    local pid
    kill -STOP "$1" 2>/dev/null || true    # it makes no new children meanwhile
    for pid in $(ps -o pid= -s "$1"); do kill -KILL "$pid" 2>/dev/null || true; done
}

# make_certificates DIRECTORY NAME LOG: a CA of our own (ca.pem) and a server's
# certificate by it for NAME (DNS:… or IP:…): server.pem, server.key, and both in one file.
make_certificates() {
    local tls=$1
    local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    mkdir -p "$tls"
    openssl req -x509 "${key[@]}" -days 30 -subj "/CN=Penstock test CA" \
        -keyout "$tls/ca.key" -out "$tls/ca.pem" 2>>"$3"
    openssl req "${key[@]}" -subj "/CN=localhost" -keyout "$tls/server.key" -out "$tls/server.csr" 2>>"$3"
    openssl x509 -req -in "$tls/server.csr" -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial \
        -days 30 -extfile <(echo "subjectAltName=$2") -out "$tls/server.pem" 2>>"$3"
    cat "$tls/server.key" "$tls/server.pem" >"$tls/server.both"
}
