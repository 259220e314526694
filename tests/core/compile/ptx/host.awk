# The PTX that core/compile/ptx/ writes as C++ for host.h: an instruction is a function of its name, a register a variable.
function variables(letter, count, type,   i, list) {
  for (i = 0; i < count + 0; i++) list = list (i ? ", " : "") letter i
  return "  " type " " list ";"
}
BEGIN {
  types["pred"] = "bool"; types["b16"] = "uint16_t"; types["b32"] = "uint32_t"; types["b64"] = "uint64_t"
  types["f32"] = "float"; types["f64"] = "double"
}
/^\.(version|target|address_size)/ || /^$/ { next }
/^\.visible \.entry/ { head = $3; next }
head != "" && /^ *\.param/ {
  name = $3
  sub(/,/, "", name)
  head = head (head ~ /\($/ ? "" : ", ") (/written/ ? "" : "const ") "void *" name
  next
}
/^\)/ { next }
/^\.maxntid/ { print "__global__ void __launch_bounds__(" $2 + 0 ", 1) " head ") {"; head = ""; next }
/^[{]/ || /^\.minnctapersm/ { next }
/^}/ { print "}"; next }
/^ *\.reg/ {
  match($3, /<[0-9]+>/)
  print variables(substr($3, 2, RSTART - 2), substr($3, RSTART + 1, RLENGTH - 2), types[substr($2, 2)])
  next
}
/^ *\.shared/ { print "  static thread_local " types[substr($4, 2)] " " $5; next }
/^L[0-9]+:$/ { print "  " $0 ";"; next }
{
  line = $0
  guard = ""
  sub(/^ */, "", line)
  sub(/;$/, "", line)
  if (match(line, /^@!?%p[0-9]+ /)) {
    guard = substr(line, 2, RLENGTH - 2)
    gsub(/%/, "", guard)
    guard = "if (" guard ") "
    line = substr(line, RLENGTH + 1)
  }
  at = index(line, " ")
  name = at ? substr(line, 1, at - 1) : line
  rest = at ? substr(line, at + 1) : ""
  gsub(/%(tid|ntid|ctaid|nctaid)\.x/, "&()", rest)
  gsub(/\.x\(\)/, "_x", rest)
  while (match(rest, /0f[0-9A-F]+/)) rest = substr(rest, 1, RSTART - 1) "F(0x" substr(rest, RSTART + 2, RLENGTH - 2) "u)" substr(rest, RSTART + RLENGTH)
  while (match(rest, /0d[0-9A-F]+/)) rest = substr(rest, 1, RSTART - 1) "D(0x" substr(rest, RSTART + 2, RLENGTH - 2) "u)" substr(rest, RSTART + RLENGTH)
  gsub(/[%{}\[\]]/, "", rest)
  gsub(/\./, "_", name)
  if (name == "bra") print "  " guard "goto " rest ";"
  else if (name == "ret") print "  " guard "return;"
  else print "  " guard name "(" rest ");"
}
