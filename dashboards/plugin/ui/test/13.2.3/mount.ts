import { createRoot } from 'react-dom/client';

export const mount = (page: any, root: HTMLElement) => createRoot(root).render(page);
