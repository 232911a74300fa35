#include "textflag.h"

// func prlimitNofile(old *[2]uint64) int64
TEXT ·prlimitNofile(SB),NOSPLIT,$0-16
	MOVD	ZR, R0		// this process
	MOVD	$7, R1		// RLIMIT_NOFILE
	MOVD	ZR, R2
	MOVD	old+0(FP), R3
	MOVD	$261, R8	// prlimit64
	SVC
	MOVD	R0, ret+8(FP)
	RET
