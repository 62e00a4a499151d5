# Puts Hatch on the PATH of this shell, installing it where it is missing or too old. Source it: . ./hatch-here.sh
# Hatch goes into .venv-hatch beside this file; nothing outside the repository is changed, so that it also works
# where the system's Python is externally managed. Needs Python 3.11 or newer with its venv module.

_hatch_here() {
  _home=.venv-hatch
  [ -f constraints.txt ] || { echo "hatch-here: run this in the root of the repository" >&2; return 1; }
  if command -v hatch >/dev/null 2>&1 && _new_enough hatch; then return 0; fi
  if [ ! -x "$_home/bin/hatch" ] || ! _new_enough "$_home/bin/hatch"; then
    for _python in python3 python3.14 python3.13 python3.12 python3.11 python; do
      if "$_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then break; fi
      _python=
    done
    [ -n "$_python" ] || { echo "hatch-here: no Python 3.11 or newer found" >&2; return 1; }
    echo "hatch-here: installing Hatch into $_home" >&2
    rm -rf "$_home"
    if ! _said=$("$_python" -m venv "$_home" 2>&1); then
      rm -rf "$_home"
      echo "$_said" >&2
      echo "hatch-here: $_python cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2
      return 1
    fi
    "$_home/bin/python" -m pip install --quiet --disable-pip-version-check 'hatch>=1.18' || { rm -rf "$_home"; return 1; }
  fi
  PATH="$PWD/$_home/bin:$PATH"
  export PATH
}

_new_enough() {
  "$1" --version 2>/dev/null | awk '{ split($NF, v, "."); exit !(v[1] > 1 || (v[1] == 1 && v[2] >= 18)) }'
}

_hatch_here
