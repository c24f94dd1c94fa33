# bash completion of ddlsim: asks `ddlsim complete`, so that users' own data (--data, DDLSIM_DATA) are known.
_ddlsim() {
  # Readline also breaks words at '=' and ':'; to ddlsim they are one.
  local -a words=()
  local word joined=no
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == [=:] || $joined == yes ]] && [ ${#words[@]} -gt 0 ]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    if [[ $word == [=:] ]]; then joined=yes; else joined=no; fi
  done
  local current=${words[${#words[@]} - 1]-} last=${COMP_WORDS[COMP_CWORD]}
  [[ $last == [=:] ]] && last=
  local kept=${current%"$last"} quote=
  case $current in
    [\"\']*) quote=${current:0:1} current=${current:1} kept=${kept#[\"\']} ;;
  esac
  words[${#words[@]} - 1]=$current
  local line value
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files | :folders)
        local -a paths=()
        value=${current#*=}
        [[ $current == *=* ]] || value=$current
        if [ "$line" = :files ]; then mapfile -t paths < <(compgen -f -- "$value"); else mapfile -t paths < <(compgen -d -- "$value"); fi
        COMPREPLY+=("${paths[@]}")
        compopt -o filenames 2>/dev/null
        ;;
      :open) compopt -o nospace 2>/dev/null ;;
      *)
        value=${line%%$'\t'*}
        value=${value#"$kept"}
        if [ -z "$quote" ]; then printf -v value %q "$value"; fi
        COMPREPLY+=("$value")
        ;;
    esac
  done < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
}
complete -F _ddlsim ddlsim
