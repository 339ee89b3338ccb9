# Writes the first C example (```c ... ```) of the Markdown file INPUT to OUTPUT, so that a test can
# compile it.
file(READ "${INPUT}" text)
string(FIND "${text}" "\n```c\n" start)
if(start EQUAL -1)
  message(FATAL_ERROR "${INPUT} holds no C example")
endif()
math(EXPR start "${start} + 6")
string(SUBSTRING "${text}" ${start} -1 text)
string(FIND "${text}" "\n```" end)
string(SUBSTRING "${text}" 0 ${end} text)
file(WRITE "${OUTPUT}" "${text}\n")
