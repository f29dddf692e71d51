# cmake -DPROGRAM= -DOPTIONS= -DPREFIX= -DSOURCE= -DOUT= -DFILECHECK= -P run_filecheck.cmake
# The program's output goes through a file, not a pipe: a crash is a failure, and the text stays to be looked at.
separate_arguments(options UNIX_COMMAND "${OPTIONS}")
execute_process(COMMAND ${PROGRAM} ${options} OUTPUT_FILE ${OUT} ERROR_VARIABLE said RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ${OPTIONS} failed (${code}):\n${said}")
endif()
execute_process(COMMAND ${FILECHECK} --allow-empty --check-prefix=${PREFIX} --input-file ${OUT} ${SOURCE} ERROR_VARIABLE said RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${said}\nthe checked text is in ${OUT}")
endif()
