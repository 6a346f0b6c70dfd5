export { startInProcess, type InProcessDaemon, type InProcessOptions } from './assembly/in-process.ts';
export { type Log, silentLog } from './core/log.ts';
