declare module 'unix-crypt-td-js' {
  /** Returns the 13 characters of DES crypt(3). Uses only the low seven bits of the first eight bytes. */
  export default function unixCryptTD(password: readonly number[], salt: string): string;
}
