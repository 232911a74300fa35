// Package editorclient reads a configuration as the client that it is for
// does: it finds the entry, puts values in the place of variables, and says
// what would be started, with which environment, in which directory. Tests use
// it to try what serve/editors prints without the clients, most of which need a
// screen, an account or hundreds of megabytes.
//
// It knows nothing of serve/editors, so that a mistake there is not repeated
// here. What each client does was seen with the client itself or read in its
// documentation or source; where nothing is known of the directory it is /, and
// of the environment the least that clients give.
package editorclient
