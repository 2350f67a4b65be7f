# What stands before the blocks of a page: its servers run beside it, and its curl says how the
# server has answered. DELAYQ is the program.

set -eE
trap 'echo "FAILED: $BASH_COMMAND"' ERR
trap 'kill $SERVERS 2>/dev/null; wait' EXIT
export DELAYQ_FIRST_TOKEN_FILE=-
SERVERS=
ID=

# A server is started once it listens; anything else is done in place. ID is that of the last token,
# which servers that run hear of within a second.
delayq-server() {
  case " $* " in
    *' token create '*)
      "$DELAYQ" "$@" > created
      cat created
      ID=$(sed -n 's/^its id is \([^;]*\);.*/\1/p' created)
      sleep 1
      ;;
    *' apply '* | *' token '* | *' move '*) "$DELAYQ" "$@" ;;
    *)
      local said=server-${SERVERS// /-}
      "$DELAYQ" "$@" > "$said" &
      SERVERS="$SERVERS $!"
      until grep -q 'listens on' "$said"; do
        kill -0 $!
        sleep 0.05
      done
      ;;
  esac
}

first_token() {
  until grep -q 'its first token' server-; do sleep 0.05; done
  sed -n 's/^its first token, .*: //p' server-
}

# TOKEN is the one that an answer has.
curl() {
  command curl --silent --show-error --fail-with-body --max-time 40 \
    --write-out '%{stderr}%{http_code}\n' "$@" > body 2> status || {
    cat body status
    return 1
  }
  cat body
  tail -n 1 status >> statuses
  if grep -q '"token": *"' body; then
    TOKEN=$(sed -n 's/.*"token": *"\([^"]*\)".*/\1/p' body)
  fi
}

