/**
 * Self-signed; serial 0x1234567890abcdef12, issuer C=DE, O="Example, Inc.", CN="Jürgen  CA",
 * emailAddress=CA@Example.com.
 */
export const CERTIFICATE = Buffer.from(
  'MIIB/zCCAaagAwIBAgIJEjRWeJCrze8SMAoGCCqGSM49BAMCMFoxCzAJBgNVBAYTAkRFMRYwFAYDVQQKDA1FeGFtcGxlLCBJbmMuMRQwEgYDVQQD' +
    'DAtKw7xyZ2VuICBDQTEdMBsGCSqGSIb3DQEJARYOQ0FARXhhbXBsZS5jb20wIBcNMjYxMTIxMDkwNzI3WhgPMjEyNjEwMjgwOTA3MjdaMFoxCzAJ' +
    'BgNVBAYTAkRFMRYwFAYDVQQKDA1FeGFtcGxlLCBJbmMuMRQwEgYDVQQDDAtKw7xyZ2VuICBDQTEdMBsGCSqGSIb3DQEJARYOQ0FARXhhbXBsZS5j' +
    'b20wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQpht1ZQviWgzAz37fm2kOsvpdrCMiw0hmn+QRjTaYKbocK/C5OPlZ5OMqaGtPveCqAvWn++CNG' +
    '2SaIvUJo/Lo4o1MwUTAdBgNVHQ4EFgQUZt9a9tLg4gIZsCbNzNSJO/2ICvowHwYDVR0jBBgwFoAUZt9a9tLg4gIZsCbNzNSJO/2ICvowDwYDVR0T' +
    'AQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBPePmakQ5F0Goygee1Oc2v4GwyJtRDs6qGXglee3H8cgIgSzCqwr1FzfCYYJDj09LfbUdUgPev' +
    '3F2QHv/NRgcK2UM=',
  'base64',
);
export const LIST = Buffer.from(
  'MIGlME0CAQEwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBeBcNMjYxMTIxMDkwNzI4WhgPMjEyNjEwMjgwOTA3MjhaoA4wDDAKBgNVHRQEAwIBATAK' +
    'BggqhkjOPQQDAgNIADBFAiBn+0IAUVK8U8Ew3mJcVxeiapsnphjtq6ZbKNOArFh1fAIhAPoY+moRpKhSgFGh0mgk7dwpZLST9aGNsCjfu2nuxotV',
  'base64',
);
export const SERIAL = '335812727627494321938';
export const ISSUER = 'emailAddress=ca@example.com,cn=jürgen ca,o=EXAMPLE\\, inc.,c=de';
