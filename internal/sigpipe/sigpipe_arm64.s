#include "textflag.h"

// See sigpipe_amd64.s; signal and siginfo come in R0 and R1, and the kernel
// has put the vDSO's rt_sigreturn into the link register.
TEXT handler<>(SB),NOSPLIT|NOFRAME,$0
	SUB	$32, RSP
	MOVW	R0, 0(RSP)
	MOVWU	8(R1), R2	// si_code
	MOVW	R2, 4(RSP)
	MOVWU	16(R1), R2	// si_pid
	MOVW	R2, 8(RSP)
	MOVW	ZR, 12(RSP)
	MOVW	·writeFD(SB), R0
	MOVD	RSP, R1
	MOVD	$16, R2
	MOVD	$64, R8		// write
	SVC
	ADD	$32, RSP
	RET

TEXT ·handlerPC(SB),NOSPLIT,$0-8
	MOVD	$handler<>(SB), R0
	MOVD	R0, ret+0(FP)
	RET

TEXT ·restorerPC(SB),NOSPLIT,$0-8
	MOVD	ZR, ret+0(FP)
	RET
