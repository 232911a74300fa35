#include "textflag.h"

// The handler gets signal, siginfo and context in DI, SI, DX, as C functions
// do, and may use every register: rt_sigreturn(2) restores them all.
TEXT handler<>(SB),NOSPLIT|NOFRAME,$0
	SUBQ	$24, SP
	MOVL	DI, 0(SP)
	MOVL	8(SI), AX	// si_code
	MOVL	AX, 4(SP)
	MOVL	16(SI), AX	// si_pid
	MOVL	AX, 8(SP)
	MOVL	$0, 12(SP)
	MOVL	·writeFD(SB), DI
	MOVQ	SP, SI
	MOVL	$16, DX
	MOVL	$1, AX		// write
	SYSCALL
	ADDQ	$24, SP
	RET

// The kernel wants the address to return to in the sigaction: sigreturn(2).
TEXT restorer<>(SB),NOSPLIT|NOFRAME,$0
	MOVL	$15, AX		// rt_sigreturn
	SYSCALL
	INT	$3

TEXT ·handlerPC(SB),NOSPLIT,$0-8
	LEAQ	handler<>(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

TEXT ·restorerPC(SB),NOSPLIT,$0-8
	LEAQ	restorer<>(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
