#include "textflag.h"

// func prlimitNofile(old *[2]uint64) int64
TEXT ·prlimitNofile(SB),NOSPLIT,$0-16
	MOVL	$0, DI		// this process
	MOVL	$7, SI		// RLIMIT_NOFILE
	MOVL	$0, DX
	MOVQ	old+0(FP), R10
	MOVL	$302, AX	// prlimit64
	SYSCALL
	MOVQ	AX, ret+8(FP)
	RET
