/** Types for the part of the package `cli-progress` that progress.ts uses. The package has no types. */
declare module 'cli-progress' {
  export interface BarOptions {
    readonly format: string;
    readonly stream: NodeJS.WritableStream;
    readonly fps: number;
    readonly hideCursor: boolean;
    readonly clearOnComplete: boolean;
    readonly gracefulExit: boolean;
  }

  export class SingleBar {
    constructor(options: BarOptions, preset: unknown);
    start(total: number, value: number, payload: Readonly<Record<string, string>>): void;
    update(value: number, payload: Readonly<Record<string, string>>): void;
    stop(): void;
  }

  export const Presets: { readonly legacy: unknown };
}
