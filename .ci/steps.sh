# Sourced by `.ci/run` and `.ci/nightly`: where they build, how they install missing tools, and how they run and time steps.
#
# The caches lie under BYLEAVE_CI_CACHE, so that the next run on the same machine is quick. Everything passes from cold as well.

cache=${BYLEAVE_CI_CACHE:-$HOME/.cache/byleave-ci}
[[ -d $cache/target ]] && start=warm || start=cold
mkdir -p "$cache"
export BYLEAVE_CI_CACHE="$cache"
export CARGO_TARGET_DIR="$cache/target"
export CARGO_TERM_COLOR=never
# Compiled dependencies are kept between runs. Incremental state of our own crates would only grow.
export CARGO_INCREMENTAL=0
# Cargo decides by time stamps what to rebuild. The time stamps of another checkout are not valid for this
# one.
if [[ $start == warm && $(cat "$cache/checkout" 2>/dev/null) != "$PWD" ]]; then
    git ls-files -z | xargs -0 touch --no-create
fi
printf '%s\n' "$PWD" >"$cache/checkout"
# Makes the programs that these scripts or rustup install available without a login shell.
export PATH="$cache/tools/bin:$HOME/.cargo/bin:$PATH"
export PYTHONDONTWRITEBYTECODE=1

# One line per finished step: name, compile or run, seconds, and how it ended.
times=$cache/last-run.tsv

say() { printf '\n== %s\n' "$*"; }
die() { printf '\n%s: %s\n' "$0" "$*" >&2; exit 1; }

# Runs one step: `step NAME compile|run COMMAND...`. The first step that fails ends the whole run.
step() {
    local name=$1 kind=$2 began=$SECONDS
    shift 2
    say "$name ($kind): $*"
    if "$@"; then
        printf '%s\t%s\t%d\tpassed\n' "$name" "$kind" "$((SECONDS - began))" >>"$times"
        printf -- '-- %s: %d s\n' "$name" "$((SECONDS - began))"
    else
        printf '%s\t%s\t%d\tFAILED\n' "$name" "$kind" "$((SECONDS - began))" >>"$times"
        die "$name failed after $((SECONDS - began)) s"
    fi
}

# Installs the Debian packages that are missing, each given as `PROGRAM:PACKAGE`.
install_packages() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    if ! command -v apt-get >/dev/null || [[ $(id -u) -ne 0 ]]; then
        die "these packages are missing: ${missing[*]}; install them (as root: apt-get install ${missing[*]})"
    fi
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}" ||
        die "cannot install ${missing[*]}"
}

check_toolchain() {
    command -v cargo >/dev/null ||
        die "there is no cargo; install Rust with rustup (https://rustup.rs): rustup toolchain install stable"
    local tool
    for tool in fmt clippy; do
        cargo "$tool" --version >/dev/null 2>&1 ||
            die "cargo $tool is missing; add it: rustup component add rustfmt clippy"
    done
    cargo --version
    rustc --version
}

# Installs a program of a crate: `install_crate COMMAND CRATE`. Unoptimised: compiling it takes longer than running it.
install_crate() {
    "$1" --version >/dev/null 2>&1 && return
    say "installing $2"
    CARGO_TARGET_DIR="$cache/tools/target" cargo install --locked --debug --root "$cache/tools" "${@:2}" || die "cannot install $2"
}

# The programs that the `diagnostics` tool runs. They are in a separate directory because other tests must not find them.
# Go is checked if it is in `$cache/diagnostics/go`.
install_checkers() {
    local at="$cache/diagnostics"
    if [[ ! -x $at/venv/bin/ruff || ! -x $at/venv/bin/mypy ]]; then
        say "installing ruff and mypy"
        { /usr/bin/python3 -m venv --without-pip "$at/venv" &&
            pip3 -q --python "$at/venv/bin/python" install ruff mypy; } || die "cannot install ruff and mypy"
    fi
    if [[ ! -d $at/npm/node_modules/eslint || ! -d $at/npm/node_modules/typescript ]]; then
        say "installing eslint and typescript"
        npm install --silent --no-audit --no-fund --prefix "$at/npm" eslint typescript ||
            die "cannot install eslint and typescript"
    fi
}

# Real MCP servers for the tests of the gateway.
install_servers() {
    local at="$cache/servers" version=2026.8.31 pinned
    pinned="\"version\": \"$version\""
    if ! grep -qs "$pinned" "$at/node_modules/@modelcontextprotocol/server-everything/package.json" ||
        ! grep -qs "$pinned" "$at/node_modules/@modelcontextprotocol/server-filesystem/package.json"; then
        say "installing server-everything and server-filesystem"
        npm install --silent --no-audit --no-fund --prefix "$at" \
            "@modelcontextprotocol/server-everything@$version" "@modelcontextprotocol/server-filesystem@$version" ||
            die "cannot install the MCP servers"
    fi
}

# Installs everything that the tests need. Both tiers run tests.
install_for_tests() {
    install_packages cc:build-essential pkg-config:pkg-config git:git sqlite3:sqlite3 curl:curl openssl:openssl npm:npm python3:python3 \
        pip3:python3-pip setcap:libcap2-bin ip:iproute2 unshare:util-linux script:bsdutils bwrap:bubblewrap mandoc:mandoc \
        groff:groff-base podman:podman runc:runc newuidmap:uidmap busybox:busybox-static mawk:mawk gawk:gawk \
        rg:ripgrep fdfind:fd-find find:findutils xz:xz-utils make:make /usr/sbin/sshd:openssh-server chromium:chromium psql:postgresql
    check_toolchain
    install_crate cargo-nextest cargo-nextest
    install_checkers
    install_servers
}

# The tests of byleave-fleet and byleave-postgres leave their servers running for the next test run.
stop_servers() {
    scripts/fleet down >/dev/null 2>&1 || true
    scripts/postgres down >/dev/null 2>&1 || true
}
