// Package redisstore keeps limits in Redis or Valkey.
package redisstore
