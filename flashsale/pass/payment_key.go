package pass

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
)

// SealKey encrypts a key of a payment provider (AES-256-GCM).
func (k *Keys) SealKey(provider, text string) (string, error) {
	c, err := k.current[paymentKey].cipher()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, c.NonceSize())
	rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(c.Seal(nonce, nonce, []byte(text), []byte(provider))), nil
}

// OpenKey decrypts the result of SealKey for the same provider.
func (k *Keys) OpenKey(provider, sealed string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return "", ErrBad
	}
	subkeys := []subkey{k.current[paymentKey]}
	if k.older != nil {
		subkeys = append(subkeys, k.older[paymentKey])
	}
	for _, s := range subkeys {
		c, err := s.cipher()
		if err != nil {
			return "", err
		}
		if n := c.NonceSize(); len(raw) > n {
			if text, err := c.Open(nil, raw[:n], raw[n:], []byte(provider)); err == nil {
				return string(text), nil
			}
		}
	}
	return "", ErrBad
}

// cipher returns the cipher of a subkey.
func (s subkey) cipher() (cipher.AEAD, error) {
	b, err := aes.NewCipher(s.sum(nil, []byte("aes-256-gcm")))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}
