# fish completion of ddlsim: asks `ddlsim complete`, so that users' own data (--data, DDLSIM_DATA) are known.
function __ddlsim_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string unescape)
    set -l program $words[1]
    set -e words[1]
    for line in ($program complete $words "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (string replace -r '^[^=]*=' '' -- "$current")
            case :folders
                __fish_complete_directories (string replace -r '^[^=]*=' '' -- "$current")
            case :open
            case '*'
                echo $line
        end
    end
end
complete -c ddlsim -f -a '(__ddlsim_complete)'
