declare module 'unix-crypt-td-js' {
  /**
   * Returns the text of DES crypt(3): 13 characters, of which two are the salt. Uses only the low seven bits of the
   * first eight bytes of the password.
   */
  export default function unixCryptTD(password: readonly number[], salt: string): string;
}
