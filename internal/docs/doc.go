// Package docs holds no code: its tests keep the documentation true. They run the README's
// console examples, and look up the tests, files and flags that the documents name.
package docs
